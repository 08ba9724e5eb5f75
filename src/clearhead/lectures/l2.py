"""The claims of L2, notes on the motivation of the Transformer and its tricks. Nothing here imports torch."""

from clearhead.lectures.claim import Claim

CLAIMS = (
    Claim(
        id="L2.1",
        title="Interaction distance: O(l) in an RNN, O(1) in attention",
        statement="In a recurrent net two words are as many steps apart as there are words between them; in attention "
        "every word is next to every other.",
        latex=r"\text{RNN: } O(l)\qquad\text{attention: } O(1)",
        verdict="holds",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L2_1_attention_reaches_in_one_layer",
        demonstration="l2_motivation:interaction_distance",
    ),
    Claim(
        id="L2.2",
        title="What cannot run in parallel does not grow with the length",
        statement="A recurrent net has to wait for each word; attention computes all words at once.",
        latex=r"\text{span of training: } O(\log n)\qquad\text{span of decoding: } O(m\log m)",
        verdict="misprint",
        right="true for training; a decoder still generates one token after the other, and a cache lowers its work, "
        "not the number of sequential steps",
        module="clearhead.costing.forms.bill",
        test="tests/costing/test_decoding.py::test_L2_2_decoding_takes_steps_that_wait_for_each_other_and_training_does_not",
        demonstration="l2_motivation:parallel_training",
    ),
    Claim(
        id="L2.3",
        title="Lower time complexity in the length, and yet quadratic",
        statement="The notes name a lower complexity in the sequence length as the motive, and quadratic compute as "
        "the drawback.",
        latex=r"2n^2d<2nd^2\iff n<d",
        verdict="misprint",
        right="attention grows with the square of the length, a recurrent layer only in proportion: attention is "
        "cheaper only while n < d",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L2_3_attention_is_cheaper_below_n_equal_to_d",
        demonstration="l2_motivation:quadratic_all_the_same",
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
    ),
    Claim(
        id="L2.5",
        title="The score is multiplicative, with a matrix of reduced rank",
        statement="q·k is a bilinear form of the two tokens whose matrix, the product of two thin ones, has at most "
        "the rank of a head.",
        latex=r"q_i^\top k_j=x_i^\top\left(W_Q^\top W_K\right)x_j\qquad\operatorname{rank}(W_Q^\top W_K)\le d_k",
        verdict="holds",
        module="clearhead.attention.score",
        test="tests/attention/test_multihead.py::test_L2_5_the_score_has_reduced_rank",
        demonstration="l2_tricks:reduced_rank",
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
    ),
    Claim(
        id="L2.8",
        title="Layer norm guards against the shifts of lower layers",
        statement="Normalised values do not change when a lower layer shifts or scales its output; ε keeps the "
        "division away from zero.",
        latex=r"\frac{x-\mu}{\sigma+\epsilon}\qquad\operatorname{LN}(ax+b)=\operatorname{LN}(x)\quad\text{for } a>0",
        verdict="misprint",
        right="torch and the models in use divide by √(σ² + ε); with σ + ε the two differ once x is as small as √ε",
        module="clearhead.blocks.norm",
        test="tests/blocks/test_norm.py::test_L2_8_the_place_of_epsilon_shows_at_small_values",
        demonstration="l2_tricks:place_of_epsilon",
    ),
    Claim(
        id="L2.9",
        title="Variances add up, so scores are divided",
        statement="The mean of a sum is the sum of the means, and its variance the sum of the variances: a score over "
        "d_k features has variance d_k, and is normalised.",
        latex=r"\operatorname{Var}[q\cdot k]=d_k\quad\Rightarrow\quad\operatorname{Var}"
        r"\left[\frac{q\cdot k}{\sqrt{d_k}}\right]=1",
        verdict="misprint",
        right="the scores are divided by √d_k; divided by d_k, as the notes say, they have variance 1/d_k",
        module="clearhead.attention.score",
        test="tests/attention/test_attend.py::test_L2_9_variance_of_the_scores",
        demonstration="l2_scale:scale_by_the_root",
    ),
    Claim(
        id="L2.10",
        title="Sinusoidal position embeddings",
        statement="Sines and cosines of geometric wavelengths tell positions apart; the notes add that no one uses "
        "them.",
        latex=r"\operatorname{PE}(p,2i)=\sin\left(\frac{p}{10000^{2i/d}}\right)\qquad\operatorname{PE}(p,2i+1)"
        r"=\cos\left(\frac{p}{10000^{2i/d}}\right)",
        verdict="misprint",
        right="they are used, by Marian's translation models among others, and in three layouts that must not be "
        "mixed up",
        module="clearhead.positions.absolute",
        test="tests/positions/test_absolute.py::test_L2_10_the_papers_layout",
        demonstration="l2_positions:three_layouts",
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
    ),
    Claim(
        id="L2.12",
        title="Relative positions are learned and added",
        statement="Vectors for distances are learned, and added to the output of self-attention.",
        latex=r"y_i=\sum_{j}\alpha_{ij}\left(v_j+b_{j-i}\right)\qquad\alpha_{ij}\propto\exp"
        r"\left(\frac{q_i\cdot(k_j+a_{j-i})}{\sqrt{d}}\right)",
        verdict="misprint",
        right="that is the values' half of the published scheme; the other half adds vectors to the keys, inside the "
        "score",
        module="clearhead.positions.shaw",
        test="tests/positions/test_shaw.py::test_L2_12_relative_vectors_join_keys_and_values",
        demonstration="l2_positions:learned_relative",
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
    ),
    Claim(
        id="L2.14",
        title="Quadratic compute, which Linformer attempts to solve",
        statement="Every pair of words interacts, so compute grows with the square of the length; Linformer first "
        "projects keys and values to k slots.",
        latex=r"\operatorname{softmax}\left(\frac{Q(EK)^\top}{\sqrt{d}}\right)(FV)\qquad 4nd^2+4nkd",
        verdict="holds under a condition",
        right="for a length that is known in advance and without a causal mask, as a slot mixes positions; it is "
        "cheaper from n = 2k on",
        module="clearhead.attention.linformer",
        test="tests/attention/test_linformer.py::test_L2_14_with_E_the_identity_it_is_full_attention",
        demonstration="l2_cost:linformer",
    ),
)
