"""The claims of L4: complexity, parameters, scaling and disentangled attention. Nothing here imports torch."""

from clearhead.lectures.claim import Claim, Place, Try

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
        place=Place("Matrix, Complexity, and Parameters", 25, 39),
        try_it=Try("clearhead lecture L0.4", "the same for any sizes"),
        words="matrix multiplication MAC FLOP parameters",
    ),
    Claim(
        id="L4.2",
        title="Self-attention head by head",
        statement="In each of h heads: three projections, the scores, the values; then the output projection of all "
        "of them.",
        latex=r"Q,K,V:\,\frac{nd^2}{h}\text{ each}\quad\text{scores: }\frac{n^2d}{h}\quad\text{values: }\frac{n^2d}{h}"
        r"\quad\text{output: }nd^2",
        verdict="holds",
        module="clearhead.costing.forms.lecture",
        test="tests/lectures/test_costs.py::test_L4_2_rows_of_the_derivation",
        demonstration="l4_cost:head_by_head",
        place=Place("Computational Complexity of Self-Attention", 87, 99),
        try_it=Try("clearhead cost ttic --view printed", "every block as the lectures print it"),
        words="projection query key value output per head",
    ),
    Claim(
        id="L4.3",
        title="Multi-head: 4nd² + 2n²d, 4d² parameters; self-attention alone: 2n²d",
        statement="The sum over the heads with all projections, and beside it the attention inside alone, whose order "
        "n²d the module table prints.",
        latex=r"h\cdot\left(\frac{3nd^2}{h}+\frac{2n^2d}{h}\right)+nd^2=4nd^2+2n^2d\qquad 4d^2\\\text{"
        r"self-attention: } 2n^2d",
        verdict="convention",
        right="true in the convention of the notes: multiply-accumulates (FLOPs are twice as many), without biases, "
        "softmax and what a causal mask saves; the two rows are kept apart, and the projections, which the module "
        "table leaves out, are the larger part while n < 2d",
        module="clearhead.costing.forms.attention",
        test="tests/lectures/test_costs.py::test_L4_3_self_attention",
        demonstration="l4_cost:self_attention",
        place=Place("Computational Complexity of Self-Attention", 117, 124),
        printed=r"4nd^2+2n^2d\to O(nd^2+n^2d)\qquad 2n^2d\to O(n^2d)\qquad 4d^2",
        try_it=Try(
            "clearhead cost ttic model.attention.output=true --view printed", "4nd² + 2n²d in the row of the attention"
        ),
        words="complexity parameters projections FLOP MAC causal",
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
        place=Place("Position-wise FFN", 126, 150),
        try_it=Try("clearhead cost tiny model.feedforward.width=512", "with d_ff = 4d the net takes 8d² parameters"),
        words="feed-forward MLP hidden position-wise",
    ),
    Claim(
        id="L4.5",
        title="Is attention worse than a recurrent layer?",
        statement="The question: with its projections a layer takes n²d + nd², more than a recurrent layer. The "
        "answer: attention did not need queries, keys and values at first, as the values were the hidden states, "
        "so that it is n²d; and the usual n is about 100.",
        latex=r"\text{attention: } 4nd^2+2n^2d\qquad\text{alone: } 2n^2d\qquad\text{recurrent: } 2nd^2\\\text{"
        r"Bahdanau: } u\cdot\tanh(Ws+Uh)\text{, } 2d^2+d",
        verdict="disputed",
        right="the first attention took its values from the hidden states, but had two matrices and a vector in its "
        "score, 2d² + d parameters; without any, attention is cheaper than a plain recurrent layer while n < d, "
        "and with projections never, but cheaper than a GRU while n < d and than an LSTM while n < 2d",
        module="clearhead.blocks.alignment",
        test="tests/attention/test_multihead.py::test_L4_5_attention_without_projections",
        demonstration="l4_cost:projections_or_not",
        place=Place("Question and Answer", 158, 166),
        printed=r"O(n^2d+nd^2)\text{, which is worse than that of a traditional RNN layer}\\\text{"
        r"the complexity of Attention layer is } O(n^2\cdot d)",
        try_it=Try("clearhead show rnn-bahdanau", "query and key maps and a direction, no map for values"),
        words="Bahdanau additive attention RNN LSTM GRU crossover projections google",
    ),
    Claim(
        id="L4.6",
        title="Table 1: work, sequential operations and path length of four layers",
        statement="Table 1 compares self-attention, recurrence, convolution and restricted attention: work per layer, "
        "sequential operations, and the longest path between two positions.",
        latex=r"\text{attention: } n^2d,\,1,\,1\qquad\text{recurrent: } nd^2,\,n,\,n\\\text{convolution: } knd^2,\,1,\,"
        r"\log_kn\qquad\text{restricted: } rnd,\,1,\,n/r",
        verdict="holds under a condition",
        right="as orders, and without the projections of attention; the convolutions must be dilated",
        module="clearhead.costing.forms.lecture",
        test="tests/costing/test_lecture.py::test_L4_6_table_1_is_what_the_layers_do",
        demonstration="l4_table_one:table_one",
        place=Place("Question and Answer: Table 1", 166),
        try_it=Try(
            "clearhead cost tiny model.encoder.attention.kind=local model.encoder.attention.window=9 --all",
            "a longer path, and work in proportion to n",
        ),
        words="convolution restricted local window path dilated recurrent constant",
    ),
    Claim(
        id="L4.7",
        title="Means and variances of sums and products",
        statement="Four rules for means and variances of sums and products of random variables.",
        latex=r"\mathbb{E}\left[\sum_{i}X_i\right]=\sum_{i}\mathbb{E}[X_i]\qquad\mathbb{E}\left[\prod_{i}X_i\right]="
        r"\prod_{i}\mathbb{E}[X_i]\\\operatorname{Var}\left[\sum_{i}X_i\right]=\sum_{i}\operatorname{Var}[X_i]\\"
        r"\operatorname{Var}\left[\prod_{i}X_i\right]=\prod_{i}\left(\operatorname{Var}[X_i]+\mathbb{E}[X_i]^2"
        r"\right)-\prod_{i}\mathbb{E}[X_i]^2",
        verdict="holds under a condition",
        right="the mean of a sum needs nothing; the variance of a sum, and the mean of a product of two, need "
        "variables that are uncorrelated; the mean of a longer product and the variance of a product need "
        "independent ones",
        module="clearhead.attention.score",
        test="tests/lectures/test_scaling.py::test_L4_7_which_rules_need_independence",
        demonstration="l4_scaling:means_and_variances",
        place=Place("Scaling", 178, 186),
        try_it=Try("clearhead lecture L4.8", "what follows for the scores"),
        words="expectation variance independence uncorrelated probability",
    ),
    Claim(
        id="L4.8",
        title="Var[q·k] = d_k, so the score is divided by √d_k",
        statement="If the entries of query and key have mean 0 and variance 1 and are independent, their dot product "
        "has mean 0 and variance d_k. Divided by the root of d_k the softmax stays soft and keeps its gradient.",
        latex=r"\mathbb{E}[q\cdot k]=0\qquad\operatorname{Var}[q\cdot k]=\operatorname{Var}\left[\sum_{i=1}^{d_k}q_ik_i"
        r"\right]=d_k",
        verdict="holds under a condition",
        right="q_i ⊥ k_i is not enough: q must be independent of k, and the entries of one of the two uncorrelated "
        "with each other; independent entries are more than is needed",
        module="clearhead.attention.score",
        test="tests/lectures/test_scaling.py::test_L4_8_the_variance_of_a_score_is_its_size",
        demonstration="l4_scaling:variance_of_a_score",
        place=Place("Scaling: Attention Score", 198, 204),
        try_it=Try("clearhead show tiny model.attention.scale=none", "q·k as it is: the softmax hardens as d_k grows"),
        words="scale softmax variance independence gradient entropy uncorrelated",
    ),
    Claim(
        id="L4.9",
        title="Algorithm 1: disentangled attention",
        statement="Content and position have projections of their own. The score of a query and a key is the sum of "
        "content to content, content to position and position to content, each position term taken from a table "
        "of relative distances, divided by the root of three times the size.",
        latex=r"\tilde A_{ij}=Q^c_i\cdot K^c_j+Q^c_i\cdot K^r_{\delta(i,j)}+K^c_j\cdot Q^r_{\delta(i,j)}\\H="
        r"\operatorname{softmax}\left(\frac{\tilde A}{\sqrt{3d}}\right)V^c",
        verdict="disputed",
        right="the paper prints the last index as δ(j, i), which is no misprint of the notes "
        "(model.attention.p2c_index = paper); every released model reads δ(i, j), which is the default here; 3 is "
        "the number of terms in use, and d is the size of a head",
        module="clearhead.attention.disentangled",
        test="tests/attention/test_disentangled.py::test_L4_9_it_is_algorithm_1",
        demonstration="l4_disentangled:algorithm_one",
        place=Place("Algorithm 1 Disentangled Attention", 206, 235),
        printed=r"\tilde A_{ij}=Q^c_i\cdot K^c_j+Q^c_i\cdot K^r_{\delta(i,j)}+K^c_j\cdot Q^r_{\delta(j,i)}\\H="
        r"\operatorname{softmax}\left(\frac{\tilde A}{\sqrt{3d}}\right)V^c",
        try_it=Try(
            "clearhead show deberta-v3-base model.attention.p2c_index=paper", "the same blocks: the index alone differs"
        ),
        words="DeBERTa disentangled relative position content c2p p2c bucket",
    ),
)
