"""The claims of L0, notes that define the Transformer by its formulas. Nothing here imports torch."""

from clearhead.lectures.claim import Claim

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
    ),
    Claim(
        id="L0.2",
        title="Attention of N queries over M keys",
        statement="The scores of all queries and keys are divided by the root of the query's size, turned into weights "
        "by a, and used to average the values. N queries can attend to a different number M of keys.",
        latex=r"\operatorname{Attention}(Q,K,V;a)=a\left(\frac{QK^\top}{\sqrt{d_q}}\right)V"
        r"\\Q\in\mathbb{R}^{N\times d_q}\quad K\in\mathbb{R}^{M\times d_q}\quad V\in\mathbb{R}^{M\times d_v}",
        verdict="misprint",
        right="V has a row for each key, M of them; the notes list v_1 … v_N",
        module="clearhead.attention.attend",
        test="tests/attention/test_attend.py::test_L0_2_queries_over_another_number_of_keys",
        demonstration="l0_attention:queries_over_keys",
    ),
    Claim(
        id="L0.3",
        title="Soft attention is a softmax, hard attention an argmax",
        statement="The function a that turns scores into weights is a softmax for soft attention and an argmax for "
        "hard attention.",
        latex=r"a_{\text{soft}}(s)_j=\frac{e^{s_j}}{\sum_{k}e^{s_k}}\qquad a_{\text{hard}}(s)_j=1\,\text{ if } j"
        r"=\operatorname{argmax}_k s_k,\,\text{ else } 0",
        verdict="misprint",
        right="argmax is an index; weights need its one-hot row, and training a gradient: the softmax's is passed "
        "through",
        module="clearhead.attention.choice",
        test="tests/attention/test_attend.py::test_L0_3_soft_and_hard_choice",
        demonstration="l0_attention:soft_and_hard",
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
    ),
    Claim(
        id="L0.9",
        title="The space of multi-head attention, term by term",
        statement="The numbers that are computed: projected queries, keys and values, a matrix of weights and a result "
        "for each head, and the output.",
        latex=r"O\left(h\left(\tilde d_q(M+N)+\tilde d_vM\right)+h\left(MN+N\tilde d_v\right)+Nd_o\right)",
        verdict="holds",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L0_9_multi_head_attention_makes_what_the_formula_says",
        demonstration="l0_cost:multihead_memory",
    ),
    Claim(
        id="L0.10",
        title="Layer norm: subtract the mean, divide by the deviation",
        statement="Values are brought to mean 0 and deviation 1, with the population's mean and deviation.",
        latex=r"y_i\leftarrow\frac{y_i-\mu}{\sigma}\qquad\mu=\mathbb{E}[y]\qquad\sigma=\sqrt{\mathbb{E}[(y-\mu)^2]}",
        verdict="misprint",
        right="the statistics are those of one token's features, with ε under the root and a learned gain and shift; "
        "over the sequence, as the notes can be read, a token would see the others",
        module="clearhead.blocks.norm",
        test="tests/blocks/test_norm.py::test_L0_10_a_token_is_normalised_on_its_own",
        demonstration="l0_blocks:layer_norm",
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
    ),
    Claim(
        id="L0.12",
        title="The feed-forward net: two maps and a ReLU",
        statement="The notes put the ReLU around both linear maps.",
        latex=r"\text{notes:}\quad\operatorname{ReLU}\left((XW_1+b_1)W_2+b_2\right)=\operatorname{ReLU}"
        r"\left(X(W_1W_2)+b_1W_2+b_2\right)"
        r"\\\text{standard:}\quad\operatorname{ReLU}(XW_1+b_1)\,W_2+b_2",
        verdict="misprint",
        right="the ReLU belongs between the two maps; outside of them, the two collapse into a single linear map",
        module="clearhead.blocks.feedforward",
        test="tests/blocks/test_feedforward.py::test_L0_12_the_outer_relu_collapses_to_one_map",
        demonstration="l0_blocks:outer_relu",
    ),
    Claim(
        id="L0.13",
        title="The feed-forward net is point-wise",
        statement="It maps the features of each token independently, from E to V features; batch and context keep "
        "their shape.",
        latex=r"(B\times C\times E)\to(B\times C\times V)",
        verdict="holds under a condition",
        right="inside Add & Norm the result is added to the input, so V must be E",
        module="clearhead.blocks.feedforward",
        test="tests/blocks/test_feedforward.py::test_L0_13_every_token_on_its_own",
        demonstration="l0_blocks:point_wise",
    ),
)
