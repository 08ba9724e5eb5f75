"""The claims of L2, notes on the motivation of the Transformer and its tricks. Nothing here imports torch."""

from clearhead.lectures.claim import Claim, Place, Try

CLAIMS = (
    Claim(
        id="L2.3",
        title="Lower time complexity in the length, and yet quadratic",
        statement="The notes name a lower complexity in the sequence length as the first motive, and quadratic "
        "compute as the drawback.",
        latex=r"\text{attention alone: } 2n^2d\qquad\text{with projections: } 4nd^2+2n^2d\qquad\text{"
        r"recurrent: } 2gnd^2",
        verdict="holds under a condition",
        right="in the length, attention grows with the square and a recurrent layer in proportion. Without "
        "projections attention multiplies less than a plain recurrent layer while n < d; with them never, but "
        "less than a GRU while n < d and than an LSTM while n < 2d (L4.5)",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L2_3_attention_is_cheaper_below_n_equal_to_d",
        demonstration="l2_motivation:quadratic_all_the_same",
        place=Place("Motivation: Lower Sequence-Length Time Complexity", 1),
        try_it=Try("clearhead cost tiny rnn-luong --crossover n", "the length from which on the second one is cheaper"),
        words="complexity quadratic crossover GRU LSTM Elman recurrent RNN",
    ),
    Claim(
        id="L2.1",
        title="Interaction distance: O(l) in an RNN, O(1) in attention",
        statement="In a recurrent net two words are as many steps apart as there are words between them, and the "
        "gradient has to pass all of them; in attention every word is next to every other.",
        latex=r"\text{RNN: } O(l)\qquad\text{attention: } O(1)",
        verdict="holds",
        module="clearhead.costing.forms.lecture",
        test=""
        "tests/costing/test_lecture.py::test_L2_1_interaction_distance_is_one_for_attention_and_the_length_for_a_recurrent_layer",
        demonstration="l2_motivation:interaction_distance",
        place=Place("Motivation: Minimize Linear Interaction Distance; Key Advantage", 1),
        try_it=Try("clearhead cost tiny --all", "the longest path between two positions, in the row of each layer"),
        words="path length RNN recurrent gradient vanishing",
    ),
    Claim(
        id="L2.2",
        title="What cannot run in parallel does not grow with the length",
        statement="Forward and backward passes of a recurrent net have to wait for each word; attention computes all "
        "words at once, so that what cannot run in parallel does not grow with the length.",
        latex=r"\text{span of training: } O(\log n)\qquad\text{span of decoding: } O(m\log m)",
        verdict="holds under a condition",
        right="true for training, but for the logarithm of a sum over all words; a decoder still writes one token "
        "after the other, and a cache lowers its work, not the number of sequential steps",
        module="clearhead.costing.forms.bill",
        test=""
        "tests/costing/test_decoding.py::test_L2_2_decoding_takes_steps_that_wait_for_each_other_and_training_does_not",
        demonstration="l2_motivation:parallel_training",
        place=Place("Motivation: Maximize Parallelization; Key Advantage", 1),
        try_it=Try("clearhead cost tiny --m 1024 --all", "the span of training beside that of decoding"),
        words="parallel span sequential backward decoding RNN recurrent cache",
    ),
    Claim(
        id="L2.4",
        title="q, k and v are linear maps of the token",
        statement="Each token is a column, and queries, keys and values are matrices times that column.",
        latex=r"q_i=W_Qx_i\qquad k_i=W_Kx_i\qquad v_i=W_Vx_i",
        verdict="holds",
        module="clearhead.attention.multihead",
        test="tests/attention/test_multihead.py::test_L2_4_the_column_convention_is_the_transpose",
        demonstration="l2_tricks:columns_and_rows",
        place=Place("Self-Attention: Calculating QKV", 1),
        try_it=Try("clearhead show tiny model.attention.bias=false", "three maps without biases in each attention"),
        words="query key value projection column row",
    ),
    Claim(
        id="L2.5",
        title="The score is multiplicative, with a matrix of reduced rank",
        statement="q·k is a bilinear form of the two tokens whose matrix, the product of two thin ones, has at most "
        "the rank of a head. The scores are normalised over the keys and weigh the values; all tokens at once are "
        "matrix products.",
        latex=r"e_{ij}=q_i^\top k_j=x_i^\top\left(W_Q^\top W_K\right)x_j\qquad\operatorname{rank}(W_Q^\top W_K)\le d_k"
        r"\\\alpha_{ij}=\frac{e^{e_{ij}}}{\sum_{j'}e^{e_{ij'}}}\qquad o_i=\sum_{j}\alpha_{ij}v_j",
        verdict="holds",
        module="clearhead.attention.score",
        test="tests/attention/test_multihead.py::test_L2_5_the_score_has_reduced_rank",
        demonstration="l2_tricks:reduced_rank",
        place=Place("Self-Attention: reduced-rank multiplicative attention, normalize, vectorized", 1, 5),
        try_it=Try("clearhead show tiny model.heads=8", "smaller heads: the rank of each score is halved"),
        words="bilinear low rank softmax vectorised Luong",
    ),
    Claim(
        id="L2.6",
        title="Self-attention alone is a rolling average",
        statement="Its weights are not negative and add up to 1, so it only averages; a layer with a ReLU after it "
        "adds the nonlinearity.",
        latex=r"y_i=\sum_{j}\alpha_{ij}v_j\qquad\alpha_{ij}\ge 0\qquad\sum_{j}\alpha_{ij}=1",
        verdict="holds under a condition",
        right="linear only while the weights are held: they depend on the tokens too; the usual net has two maps, not "
        "one",
        module="clearhead.blocks.feedforward",
        test="tests/blocks/test_feedforward.py::test_L2_6_attention_alone_is_linear_and_relu_is_not",
        demonstration="l2_tricks:rolling_average",
        place=Place("Transformer Block", 6),
        try_it=Try(
            "clearhead show tiny model.feedforward.kind=single",
            "one map and a ReLU after each attention, as the notes have it",
        ),
        words="linear nonlinearity ReLU weighted mean convex",
    ),
    Claim(
        id="L2.7",
        title="Skip connections",
        statement="A layer adds its result to its input, so that doing nothing is the easiest thing to learn.",
        latex=r"x_{l}=F(x_{l-1})+x_{l-1}",
        verdict="holds",
        module="clearhead.blocks.residual",
        test="tests/blocks/test_residual.py::test_L2_7_a_skip_connection_is_the_identity_for_no_change",
        demonstration="l2_tricks:skip_connection",
        place=Place("Tricks in Training: skip connections", 6),
        try_it=Try("clearhead show tiny model.residual=false", "the sum around each sublayer is gone"),
        words="residual identity gradient",
    ),
    Claim(
        id="L2.8",
        title="Layer norm guards against the shifts of lower layers",
        statement="Normalised values do not change when a lower layer shifts or scales its output; ε keeps the "
        "division away from zero.",
        latex=r"\frac{x-\mu}{\sqrt{\sigma^2+\epsilon}}\qquad\operatorname{LN}(ax+b)=\operatorname{LN}(x)\quad\text{"
        r"for } a>0",
        verdict="convention",
        right="torch and the models in use divide by √(σ² + ε), the notes by σ + ε (model.norm.eps_place = outside); "
        "the two differ once x is as small as √ε",
        module="clearhead.blocks.norm",
        test="tests/blocks/test_norm.py::test_L2_8_the_place_of_epsilon_shows_at_small_values",
        demonstration="l2_tricks:place_of_epsilon",
        place=Place("Tricks in Training: layernorm", 6),
        printed=r"x^{(l')}=\frac{x^{(l)}-\mu^{(l)}}{\sigma^{(l)}+\epsilon}",
        try_it=Try("clearhead show tiny model.norm.eps_place=outside", "ε outside of the root, as the notes have it"),
        words="normalisation epsilon population standard deviation layernorm",
    ),
    Claim(
        id="L2.9",
        title="Variances add up, so scores are divided",
        statement="The mean of a sum is the sum of the means, and its variance the sum of the variances: a score over "
        "d_k features has variance d_k, and is normalised.",
        latex=r"\operatorname{Var}[q\cdot k]=d_k\quad\Rightarrow\quad\operatorname{Var}\left[\frac{q\cdot k}{\sqrt{"
        r"d_k}}\right]=1",
        verdict="misprint",
        right='the scores are divided by √d_k, as line 6 itself asks before ("why divide by √d_k?"); divided by d_k, '
        "as it says in the end, they have variance 1/d_k. And it is the variance of a sum, not the mean of a variance, "
        "that is the sum of the variances",
        module="clearhead.attention.score",
        test="tests/attention/test_attend.py::test_L2_9_variance_of_the_scores",
        demonstration="l2_scale:scale_by_the_root",
        place=Place("Tricks in Training", 6),
        printed=r"\text{the mean of variance is sum of variance}\\\text{so, we normalize our attention by } d_k",
        try_it=Try("clearhead show lecture", "the score is divided by d, as the notes say"),
        words="scale variance softmax root",
    ),
    Claim(
        id="L2.10",
        title="Sinusoidal position embeddings",
        statement="Sines and cosines of geometric wavelengths tell positions apart; the notes add that no one uses "
        "them.",
        latex=r"\operatorname{PE}(p,2i)=\sin\left(\frac{p}{10000^{2i/d}}\right)\qquad\operatorname{PE}(p,2i+1)=\cos"
        r"\left(\frac{p}{10000^{2i/d}}\right)",
        verdict="disputed",
        right="they are used, by Marian's translation models among others, and in three layouts that must not be "
        "mixed up",
        module="clearhead.positions.absolute",
        test="tests/positions/test_absolute.py::test_L2_10_the_papers_layout",
        demonstration="l2_positions:three_layouts",
        place=Place("Word Order: Sinusoidal Position Embeddings", 6),
        printed=r"\text{No one uses it lol.}",
        try_it=Try("clearhead show tiny model.position.layout=halves", "all sines first, then all cosines"),
        words="position encoding sine cosine Marian",
    ),
    Claim(
        id="L2.11",
        title="Absolute position does not matter",
        statement="What matters is how far apart tokens are: a sequence that starts later should look the same.",
        latex=r"f(x_1,\dots,x_n;\,p_1+s,\dots,p_n+s)=f(x_1,\dots,x_n;\,p_1,\dots,p_n)",
        verdict="holds under a condition",
        right="only for relative schemes; a model with sinusoidal or learned positions does see the shift",
        module="clearhead.positions.relative",
        test="tests/models/test_contracts.py::test_L2_11_only_absolute_schemes_notice_a_shift",
        demonstration="l2_positions:shift_changes_nothing",
        place=Place("Word Order: Sinusoidal Position Embeddings", 6),
        try_it=Try("clearhead show tiny model.position.kind=alibi", "positions enter the scores, not the embedding"),
        words="relative absolute shift translation invariant RoPE ALiBi T5",
    ),
    Claim(
        id="L2.12",
        title="Relative positions are learned and added",
        statement="Vectors for distances are learned, and added to the output of self-attention.",
        latex=r"y_i=\sum_{j}\alpha_{ij}\left(v_j+b_{j-i}\right)\qquad\alpha_{ij}\propto\exp\left(\frac{q_i\cdot"
        r"(k_j+a_{j-i})}{\sqrt{d}}\right)",
        verdict="convention",
        right="that is the values' half of the published scheme (model.position.relative = values); most models use "
        "the other half, vectors added to the keys, inside the score",
        module="clearhead.positions.shaw",
        test="tests/positions/test_shaw.py::test_L2_12_relative_vectors_join_keys_and_values",
        demonstration="l2_positions:learned_relative",
        place=Place("Word Order: Relative Position Embeddings", 6),
        printed=r"\text{Relative positions are LEARNED and added to the self-attention outputs}",
        try_it=Try(
            "clearhead show tiny model.position.kind=shaw model.position.relative=values", "one table, for values alone"
        ),
        words="Shaw clip distance embedding cache blocks",
    ),
    Claim(
        id="L2.13",
        title="Heads of size d/h: the same computation",
        statement="Each of h heads has the size d/h, so that all of them together cost as much as one of size d.",
        latex=r"h\cdot\left(3n d\cdot\frac{d}{h}+2n^2\cdot\frac{d}{h}\right)+nd^2=4nd^2+2n^2d",
        verdict="holds under a condition",
        right="for the products; the softmax runs in every head, so its work is multiplied by h",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L2_13_heads_share_the_products_and_not_the_softmax",
        demonstration="l2_cost:heads_cost_the_same",
        place=Place("Multi-Head Attention", 6),
        try_it=Try("clearhead cost tiny model.heads=8", "the products stay the same, the softmax takes more"),
        words="heads softmax work",
    ),
    Claim(
        id="L2.14",
        title="Quadratic compute, which Linformer attempts to solve",
        statement="Every pair of words interacts, so compute grows with the square of the length; Linformer first "
        "projects keys and values to k slots.",
        latex=r"\operatorname{softmax}\left(\frac{Q(EK)^\top}{\sqrt{d}}\right)(FV)\qquad 4nd^2+4nkd",
        verdict="holds under a condition",
        right="for a length that is known in advance and without a causal mask, as a slot mixes positions; it costs "
        "the same at n = 2k and less from 2k + 1 on, and gives up the more the smaller k is",
        module="clearhead.attention.linformer",
        test="tests/attention/test_linformer.py::test_L2_14_with_E_the_identity_it_is_full_attention",
        demonstration="l2_cost:linformer",
        place=Place("Transformer Drawbacks", 6),
        try_it=Try(
            "clearhead cost bert-base bert-base model.attention.kind=linformer --crossover n",
            "the length from which on Linformer is cheaper",
        ),
        words="Linformer quadratic low rank projection slots efficient",
    ),
)
