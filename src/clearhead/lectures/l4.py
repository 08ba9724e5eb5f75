"""The claims of L4: complexity, parameters, scaling and disentangled attention. Nothing here imports torch."""

from clearhead.lectures.claim import Claim

CLAIMS = (
    Claim(
        id="L4.1",
        title="A (2×3)(3×1) product: 6 multiplications, 3 parameters",
        statement="The example that the counting starts from: two rows times a learnable column.",
        latex=r"2\times 3\times 1=6\qquad 3\times 1=3",
        verdict="holds",
        module="clearhead.costing.tracing.run",
        test="tests/lectures/test_costs.py::test_L4_1_the_example_itself",
        demonstration="l4_cost:two_by_three",
    ),
    Claim(
        id="L4.2",
        title="Self-attention head by head",
        statement="In each of h heads: three projections, the scores, the values; then the output projection of all "
        "of them.",
        latex=r"Q,K,V:\,\frac{nd^2}{h}\text{ each}\quad\text{scores: }\frac{n^2d}{h}"
        r"\quad\text{values: }\frac{n^2d}{h}\quad\text{output: }nd^2",
        verdict="holds",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L4_2_rows_of_the_derivation",
        demonstration="l4_cost:head_by_head",
    ),
    Claim(
        id="L4.3",
        title="Self-attention: 4nd² + 2n²d, and 4d² parameters",
        statement="The sum over the heads; the module table prints its order as n²d.",
        latex=r"h\cdot\left(\frac{3nd^2}{h}+\frac{2n^2d}{h}\right)+nd^2=4nd^2+2n^2d\qquad 4d^2",
        verdict="misprint",
        right="these are multiply-accumulates (FLOPs are twice as many), without biases and softmax and without what "
        "a causal mask saves; the printed row O(n²d) drops the projections, which decide while n < 2d",
        module="clearhead.costing.forms.attention",
        test="tests/lectures/test_costs.py::test_L4_3_self_attention",
        demonstration="l4_cost:self_attention",
    ),
    Claim(
        id="L4.4",
        title="Feed-forward: 8nd², and 8d² parameters",
        statement="Two maps, up to the hidden features and down again.",
        latex=r"2nd\cdot d_{\text{ff}}=8nd^2\qquad 2d\cdot d_{\text{ff}}=8d^2",
        verdict="holds under a condition",
        right="for d_ff = 4d, and without biases",
        module="clearhead.costing.forms.feedforward",
        test="tests/lectures/test_costs.py::test_L4_4_feed_forward",
        demonstration="l4_cost:feed_forward",
    ),
    Claim(
        id="L4.5",
        title="Is attention worse than a recurrent layer?",
        statement="With its projections a layer takes n²d + nd², more than a recurrent layer's nd²; the answer given "
        "is that attention did not need projections at first, so that it is n²d.",
        latex=r"4nd^2+2n^2d\quad\text{against}\quad 2n^2d\quad\text{against}\quad 2nd^2",
        verdict="misprint",
        right="the first, additive attention had matrices too; without any, attention is cheaper than a recurrent "
        "layer while n < d, and with them never, but cheaper than an LSTM while n < 2d",
        module="clearhead.attention.multihead",
        test="tests/attention/test_multihead.py::test_L4_5_attention_without_projections",
        demonstration="l4_cost:projections_or_not",
    ),
    Claim(
        id="L4.6",
        title="Table 1: work, sequential operations and path length of four layers",
        statement="Self-attention, recurrence, convolution and restricted attention: work per layer, sequential "
        "operations, and the longest path between two positions.",
        latex=r"\text{attention: } n^2d,\,1,\,1\qquad\text{recurrent: } nd^2,\,n,\,n"
        r"\\\text{convolution: } knd^2,\,1,\,\log_kn\qquad\text{restricted: } rnd,\,1,\,n/r",
        verdict="holds under a condition",
        right="as orders, and without the projections of attention; the convolutions must be dilated",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L4_6_table_one",
        demonstration="l4_cost:table_one",
    ),
    Claim(
        id="L4.7",
        title="Means and variances of sums and products",
        statement="Four rules for means and variances of sums and products of random variables.",
        latex=r"\mathbb{E}\left[\sum_{i}X_i\right]=\sum_{i}\mathbb{E}[X_i]\qquad\mathbb{E}"
        r"\left[\prod_{i}X_i\right]=\prod_{i}\mathbb{E}[X_i]"
        r"\\\operatorname{Var}\left[\sum_{i}X_i\right]=\sum_{i}\operatorname{Var}[X_i]"
        r"\\\operatorname{Var}\left[\prod_{i}X_i\right]=\prod_{i}"
        r"\left(\operatorname{Var}[X_i]+\mathbb{E}[X_i]^2\right)-\prod_{i}\mathbb{E}[X_i]^2",
        verdict="holds under a condition",
        right="all but the first need independent variables",
        module="clearhead.attention.score",
        test="tests/lectures/test_claims.py::test_L4_7_means_and_variances_need_independence",
        demonstration="l4_scaling:means_and_variances",
    ),
    Claim(
        id="L4.8",
        title="Var[q·k] = d_k, so the score is divided by √d_k",
        statement="If the entries of query and key have mean 0 and variance 1 and are independent, their dot product "
        "has mean 0 and variance d_k. Divided by the root of d_k the softmax stays soft and keeps its gradient.",
        latex=r"\mathbb{E}[q\cdot k]=0\qquad\operatorname{Var}[q\cdot k]=\operatorname{Var}\left[\sum_{i"
        r"=1}^{d_k}q_ik_i\right]=d_k",
        verdict="holds under a condition",
        right="the products q_i k_i must also be independent of each other, across i; and q of k",
        module="clearhead.attention.score",
        test="tests/lectures/test_claims.py::test_L4_8_the_variance_of_a_score_is_its_size",
        demonstration="l4_scaling:variance_of_a_score",
    ),
    Claim(
        id="L4.9",
        title="Algorithm 1: disentangled attention",
        statement="Content and position have projections of their own. The score of a query and a key is the sum of "
        "content to content, content to position and position to content, each position term taken from a table of "
        "relative distances, divided by the root of three times the size.",
        latex=r"\tilde A_{ij}=Q^c_i\cdot K^c_j+Q^c_i\cdot K^r_{\delta(i,j)}+K^c_j\cdot Q^r_{\delta(j,i)}"
        r"\\H=\operatorname{softmax}\left(\frac{\tilde A}{\sqrt{3d}}\right)V^c",
        verdict="misprint",
        right="the last index is δ(j, i) in the printed algorithm and δ(i, j) in every released model, which is the "
        "default here; 3 is the number of terms in use, and d is the size of a head",
        module="clearhead.attention.disentangled",
        test="tests/attention/test_disentangled.py::test_L4_9_it_is_algorithm_1",
        demonstration="l4_disentangled:algorithm_one",
    ),
)
