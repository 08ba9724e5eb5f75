"""The claims of L0, notes that define the Transformer by its formulas. Nothing here imports torch."""

from clearhead.lectures.claim import Claim, Place, Try

CLAIMS = (
    Claim(
        id="L0.1",
        title="A target's probability is a product over its tokens",
        statement="A model that generates token by token assigns a target the product of the probabilities of its "
        "tokens, each given the tokens before it and the encoded source. Maximum likelihood trains this product.",
        latex=r"p_\theta(y_{1:L}\mid x_{1:T})=\prod_{l=1}^{L}p_\theta\left(y_l\mid y_{<l};"
        r"\,\operatorname{enc}(x_{1:T})\right)",
        verdict="misprint",
        right="the product runs over l, the index of the token; the notes write i below the product and l inside it",
        module="clearhead.predictor.forced",
        test="tests/models/test_contracts.py::test_L0_1_the_likelihood_factorises",
        demonstration="l0_attention:likelihood",
        place=Place("Language Modeling (MLE)", 5),
        printed=r"p_\theta(y_{1:L}\mid x_{1:T})=\prod_{i=1}^{L}p_\theta\left(y_l\mid y_{<l};"
        r"\,\operatorname{enc}(x_{1:T})\right)",
        try_it=Try(
            "clearhead train g2p-en -o runs/mle --max-steps 100 training.label_smoothing=0.0",
            "the loss is −log p of a token",
        ),
        words="maximum likelihood teacher forcing loss cross entropy autoregressive chain rule training",
    ),
    Claim(
        id="L0.2",
        title="Attention of N queries over M keys",
        statement="The scores of all queries and keys are divided by the root of the query's size, turned into weights "
        "by a, and used to average the values. N queries can attend to a different number M of keys, all of them "
        "linear maps of tokens.",
        latex=r"\operatorname{Attention}(Q,K,V;a)=a\left(\frac{QK^\top}{\sqrt{d_q}}\right)V"
        r"\\Q=XW_Q\in\mathbb{R}^{N\times d_q}\quad K=X'W_K\in\mathbb{R}^{M\times d_q}"
        r"\\V=X'W_V=(v_1,v_2,\dots,v_M)^\top\in\mathbb{R}^{M\times d_v}"
        r"\\X\in\mathbb{R}^{N\times d_X}\quad X'\in\mathbb{R}^{M\times d_X}",
        verdict="misprint",
        right="V has a row for each key, M of them; the notes list v_1 … v_N. They also have a single X, with N rows: "
        "keys and values come from one X of M rows, which is the same only in self-attention",
        module="clearhead.attention.attend",
        test="tests/attention/test_attend.py::test_L0_2_queries_over_another_number_of_keys",
        demonstration="l0_attention:queries_over_keys",
        place=Place("Attention", 9),
        printed=r"\operatorname{Attention}(Q,K,V;a)=a\left(\frac{QK^\top}{\sqrt{d_q}}\right)V"
        r"\\V=(v_1,v_2,\dots,v_N)^\top\in\mathbb{R}^{M\times d_v}\quad X\in\mathbb{R}^{N\times d_X}",
        try_it=Try("clearhead show tiny model.attention.scale=dim", "the score is divided by d instead of √d"),
        words="scaled dot-product softmax query key value padding cross-attention",
    ),
    Claim(
        id="L0.3",
        title="Soft attention is a softmax, hard attention an argmax",
        statement="The function a that turns scores into weights is a softmax for soft attention and an argmax for "
        "hard attention.",
        latex=r"a_{\text{soft}}(s)_j=\frac{e^{s_j}}{\sum_{k}e^{s_k}}\qquad a_{\text{hard}}(s)_j=1\,\text{ if } j"
        r"=\operatorname{argmax}_k s_k,\,\text{ else } 0",
        verdict="convention",
        right="an argmax is an index, and by convention its one-hot row is meant, of the first of equal scores; "
        "training needs a gradient as well: the softmax's is passed through",
        module="clearhead.attention.choice",
        test="tests/attention/test_attend.py::test_L0_3_soft_and_hard_choice",
        demonstration="l0_attention:soft_and_hard",
        place=Place("Attention", 11),
        printed=r"\text{soft: } a=\operatorname{Softmax}\qquad\text{hard: } a=\operatorname{argmax}",
        try_it=Try("clearhead show tiny model.attention.choice=hard", "each query takes the best key alone"),
        words="straight-through one-hot gradient sparse",
    ),
    Claim(
        id="L0.4",
        title="A matrix product takes mnp multiplications and mp numbers",
        statement="The product of an m × n and an n × p matrix takes time proportional to mnp and has mp entries.",
        latex=r"(m\times n)\cdot(n\times p):\quad\text{time } O(mnp)\quad\text{space } O(mp)",
        verdict="holds",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L0_4_a_matrix_product",
        demonstration="l0_cost:matmul",
        place=Place("Complexity", 15),
        try_it=Try(
            "clearhead cost tiny model.width=64",
            "a product with twice the features on both sides takes four times the multiplications",
        ),
        words="matmul big-O time space flops multiply-accumulates",
    ),
    Claim(
        id="L0.5",
        title="The time of attention, term by term",
        statement="The scores take NMd_q, turning them into weights NM, averaging the values NMd_v; the two products "
        "dominate.",
        latex=r"QK^\top:\,O(NMd_q)\quad a(QK^\top):\,O(NM)\quad AV:\,O(NMd_v)"
        r"\\\text{all: } O(NMd_q+NMd_v)",
        verdict="holds",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L0_5_attention_takes_its_two_products",
        demonstration="l0_cost:attention_time",
        place=Place("Complexity", 17),
        try_it=Try("clearhead cost tiny --n 1024", "the terms with n² overtake the others"),
        words="quadratic softmax complexity big-O work",
    ),
    Claim(
        id="L0.6",
        title="The space of attention",
        statement="Attention computes an N × M matrix of weights and N results.",
        latex=r"O(MN+Nd_v)",
        verdict="misprint",
        right="a result has d_v features; the notes print d_n, which is not defined",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L0_6_attention_makes_weights_and_results",
        demonstration="l0_cost:attention_memory",
        place=Place("Complexity", 19),
        printed=r"O(MN+Nd_n)",
        try_it=Try("clearhead cost tiny --n 1024", "the bytes kept for training grow with the square of the length"),
        words="memory complexity big-O quadratic",
    ),
    Claim(
        id="L0.7",
        title="Many heads, with free sizes",
        statement="Each of h heads projects queries, keys and values to sizes of its own and attends; their results "
        "are concatenated and projected to d_o features. None of these sizes follows from another.",
        latex=r"\operatorname{Multihead}(Q,K,V)=\operatorname{concat}(\text{head}_1,\dots,\text{head}_h)\,W_O"
        r"\\\text{head}_i=\operatorname{Attention}(QW_i^Q,\,KW_i^K,\,VW_i^V)"
        r"\\W_i^Q,W_i^K\in\mathbb{R}^{d_q\times\tilde d_q}\quad W_i^V\in\mathbb{R}^{d_v\times\tilde d_v}"
        r"\quad W_O\in\mathbb{R}^{h\tilde d_v\times d_o}",
        verdict="holds under a condition",
        right="inside a head the scores are scaled by the root of the head's own size, √d̃_q",
        module="clearhead.attention.multihead",
        test="tests/attention/test_multihead.py::test_L0_7_free_sizes",
        demonstration="l0_attention:heads_of_free_sizes",
        place=Place("MHA", 23),
        try_it=Try(
            "clearhead show tiny model.attention.query_size=7 model.attention.value_size=5",
            "the shapes of all four matrices change, the output stays as wide as the tokens",
        ),
        trained=Try(
            "clearhead prune runs/demo dev.tsv --heads 8 -o smaller.safetensors",
            "layers keep different numbers of heads, and tokens stay as wide (docs/tutorials/look.md makes dev.tsv)",
        ),
        words="multi-head projection W_Q W_K W_V W_O concat head size",
    ),
    Claim(
        id="L0.8",
        title="The time of multi-head attention, term by term",
        statement="Projections of queries, keys and values, attention in every head, and the output projection; with "
        "one head the notes give its attention alone.",
        latex=r"O\left(h\left(d_q\tilde d_q(M+N)+d_v\tilde d_vM\right)+h"
        r"\left(NM\tilde d_q+NM\tilde d_v\right)+Nh\tilde d_vd_o\right)"
        r"\\h=1:\quad O(NM\tilde d_q+NM\tilde d_v)",
        verdict="holds under a condition",
        right="only products are counted: no biases, no softmax; and the line for h = 1 leaves the projections out",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L0_8_multi_head_attention_term_by_term",
        demonstration="l0_cost:multihead_time",
        place=Place("MHA", 25, 31),
        try_it=Try("clearhead cost tiny model.heads=8", "the products stay the same, the softmax takes more"),
        words="multi-head complexity big-O projections multiply-accumulates",
    ),
    Claim(
        id="L0.9",
        title="The space of multi-head attention, term by term",
        statement="The numbers that are computed: projected queries, keys and values, a matrix of weights and a result "
        "for each head, and the output; with one head the notes give its attention alone.",
        latex=r"O\left(h\left(\tilde d_q(M+N)+\tilde d_vM\right)+h\left(MN+N\tilde d_v\right)+Nd_o\right)"
        r"\\h=1:\quad O(MN+N\tilde d_v)",
        verdict="holds under a condition",
        right="the line for h = 1 leaves out what the projections and the output make; the other line has them",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L0_9_multi_head_attention_makes_what_the_formula_says",
        demonstration="l0_cost:multihead_memory",
        place=Place("MHA", 25, 34),
        try_it=Try("clearhead cost tiny model.heads=8", "the weights, and so the bytes kept for training, are doubled"),
        words="multi-head memory complexity big-O h = 1 one head",
    ),
    Claim(
        id="L0.10",
        title="Layer norm: subtract the mean, divide by the deviation",
        statement="Values are brought to mean 0 and deviation 1, with the population's mean and deviation.",
        latex=r"y_i=x_iW+b\qquad y_i\leftarrow\gamma\odot\frac{y_i-\mu_i}{\sqrt{\sigma_i^2+\epsilon}}+\beta"
        r"\qquad\mu_i=\mathbb{E}_u[y_{iu}]\qquad\sigma_i^2=\mathbb{E}_u[(y_{iu}-\mu_i)^2]",
        verdict="disputed",
        right="the statistics are those of one token's features, with ε under the root and a learned gain and shift; "
        "with one mean and deviation for all of Y, as printed, a token would see the others. y_i is x_iW + b, a row of "
        "XW + b, and the square belongs inside the mean: (E[y − μ])² is always 0",
        module="clearhead.blocks.norm",
        test="tests/blocks/test_norm.py::test_L0_10_a_token_is_normalised_on_its_own",
        demonstration="l0_blocks:layer_norm",
        place=Place("Layer Norm", 38),
        printed=r"y_i=XW+b\qquad y_i\leftarrow\frac{y_i-\mu}{\sigma}\qquad\mu=\mathbb{E}Y\qquad"
        r"\sigma=\sqrt{\mathbb{E}_{y\in Y}[y-\mu]^2}",
        try_it=Try(
            "clearhead show tiny model.encoder.norm.axis=all",
            "an encoder takes the printed reading; a decoder refuses it, as it would see the future",
        ),
        words="layernorm normalisation normalization epsilon mean variance axis padding",
    ),
    Claim(
        id="L0.11",
        title="Add & Norm wraps every sublayer",
        statement="A sublayer's result is added to its input, and the sum is normalised.",
        latex=r"\operatorname{AddNorm}(X)=\operatorname{LN}\left(X+\operatorname{Sublayer}(X)\right)",
        verdict="holds",
        module="clearhead.blocks.residual",
        test="tests/blocks/test_residual.py::test_L0_11_add_and_norm",
        demonstration="l0_blocks:add_and_norm",
        place=Place("Layer Norm", 38),
        try_it=Try("clearhead show tiny model.norm.place=post", "the norm moves behind the sum"),
        words="post-LN pre-LN residual skip connection layernorm",
    ),
    Claim(
        id="L0.12",
        title="The feed-forward net: two maps and a ReLU",
        statement="The notes put the ReLU around both linear maps.",
        latex=r"f(X)=\operatorname{ReLU}(XW_1+b_1)\,W_2+b_2"
        r"\\\text{as printed it is}\quad\operatorname{ReLU}\left(X(W_1W_2)+b_1W_2+b_2\right)",
        verdict="disputed",
        right="the ReLU belongs between the two maps; outside of them, the two collapse into a single linear map",
        module="clearhead.blocks.feedforward",
        test="tests/blocks/test_feedforward.py::test_L0_12_the_outer_relu_collapses_to_one_map",
        demonstration="l0_blocks:outer_relu",
        place=Place("Point-wise FFN (PFFN)", 46),
        printed=r"f(X)=\operatorname{ReLU}\left((XW_1+b_1)W_2+b_2\right)",
        try_it=Try(
            "clearhead show tiny model.feedforward.kind=outer", "the net of the notes; train both and compare the loss"
        ),
        words="feedforward MLP relu activation collapse linear",
    ),
    Claim(
        id="L0.13",
        title="The feed-forward net is point-wise",
        statement="It maps the features of each token independently, from E to V features; batch and context keep "
        "their shape.",
        latex=r"(B\times C\times E)\to(B\times C\times V)",
        verdict="holds under a condition",
        right="inside Add & Norm the result is added to the input: V must be E, or the residual must be projected to V",
        module="clearhead.blocks.feedforward",
        test="tests/blocks/test_feedforward.py::test_L0_13_every_token_on_its_own",
        demonstration="l0_blocks:point_wise",
        place=Place("Point-wise FFN (PFFN)", 44, 46),
        try_it=Try(
            "clearhead show tiny model.feedforward.width=256",
            "the hidden features change, batch, context and width do not",
        ),
        words="feedforward position-wise pointwise token independent",
    ),
)
