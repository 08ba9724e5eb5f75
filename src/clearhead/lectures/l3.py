"""The claims of L3, problems on parallel time and on two dimensions. Nothing here imports torch."""

from clearhead.lectures.claim import Claim, Place, Try

CLAIMS = (
    Claim(
        id="L3.1",
        title="Self-attention in indexed equations",
        statement="K heads with matrices of their own, scores that are not scaled, values of size I = J/K, and no "
        "output matrix: the result is the concatenation of the heads' outputs.",
        latex=r"\text{Query}[k,t,u]=\sum_{j}W^Q[k,u,j]\,h_{\text{in}}[t,j]\\\alpha[k,t_1,t_2]=\operatorname{"
        r"softmax}_{t_2}\sum_{u}\text{Query}[k,t_1,u]\,\text{Key}[k,t_2,u]\\\text{Out}[k,t,i]=\sum_{t'}\alpha"
        r"[k,t,t']\,\text{Value}[k,t',i]\\h_{\text{out}}[t]=\text{Out}[1,t];\,\dots;\,\text{Out}[K,t]",
        verdict="holds",
        module="clearhead.attention.multihead",
        test="tests/attention/test_multihead.py::test_L3_1_the_indexed_equations",
        demonstration="l3_heads:indexed_equations",
        place=Place("Problem 1, equations and their margin", 7, 15),
        try_it=Try("clearhead show ttic", "no scale, no biases, and no output map"),
        words="einsum index heads concatenation margin",
    ),
    Claim(
        id="L3.7",
        title="What heads mean emerges in training",
        statement="Heads are meant to represent different relations between words. What each of them represents is "
        "not given but emerges in training, and is typically difficult or impossible to interpret.",
        latex=r"H(\alpha_{k,t})=-\sum_{t'}\alpha[k,t,t']\,\ln\alpha[k,t,t']",
        verdict="holds",
        module="clearhead.attention.multihead",
        test="tests/lectures/test_heads.py::test_L3_7_a_head_reads_backwards_after_training_alone",
        demonstration="l3_heads:meaning_emerges",
        place=Place("Problem 1", 7),
        try_it=Try("clearhead train g2p-en -o runs/heads --max-steps 300", "a model whose heads can be looked at"),
        trained=Try(
            "clearhead look runs/demo dev.tsv --heads",
            "what each head looks at, and how clearly; for many it has no name (docs/tutorials/look.md makes dev.tsv)",
        ),
        words="interpretation coreference attention entropy trained",
    ),
    Claim(
        id="L3.2",
        title="A score is a sum of products; a weight is its share of Z",
        statement="The score of two positions sums the products of query and key; the weight is the exponential of "
        "the score over the sum of all of them.",
        latex=r"s[k,t_1,t_2]=\sum_{u}\text{Query}[k,t_1,u]\,\text{Key}[k,t_2,u]\\\alpha[k,t_1,t_2]=\frac{"
        r"e^{s[k,t_1,t_2]}}{\sum_{t}e^{s[k,t_1,t]}}",
        verdict="misprint",
        right="the sum runs over u, the features of query and key; j, in the handwritten note, is the index of the "
        "features of h_in[T, J], over which the projections have already summed",
        module="clearhead.attention.score",
        test="tests/attention/test_attend.py::test_L3_2_scores_sum_over_features_not_positions",
        demonstration="l3_heads:sum_over_features",
        place=Place("Problem 1, handwritten notes", 19, 20),
        printed=r"\text{score}(k,t_1,t_2)=\sum_{j}\text{Query}\cdot\text{Key}\\Z\Rightarrow\frac{e^{\text{score}}}{\sum"
        r"_{t_2}e^{\text{score}}}",
        try_it=Try("clearhead show tiny model.attention.scale=none", "q·k as it is, as in the problem"),
        words="softmax normaliser dot product feature index",
    ),
    Claim(
        id="L3.3",
        title="1(a): the softmax in O(ln T + ln U)",
        statement="A sum of N terms takes O(log N) in parallel. So, with as many processors as could be used, scores "
        "over U features and the normaliser over T positions take the sum of two logarithms; in practice the inner "
        "products are serial, and take U.",
        latex=r"O(\ln T+\ln U)\qquad\text{in practice: } O(U+\ln T)",
        verdict="holds",
        module="clearhead.costing.forms.lecture",
        test="tests/costing/test_span.py::test_L3_3_scores_and_softmax_take_log_U_plus_log_T",
        demonstration="l3_span:softmax_in_parallel",
        place=Place("Problem 1(a)", 22, 26),
        printed=r"o(\ln U+\ln T)\qquad O(\ln T+\ln U)\qquad\text{in practice: } O(U+\ln T)",
        try_it=Try("clearhead cost ttic --n 4096 --all", "a span that grows with the logarithm of the length"),
        words="parallel time logarithm tree sum span softmax",
    ),
    Claim(
        id="L3.4",
        title="1(b): the layer in O(ln T + ln J)",
        statement="The whole self-attention layer takes logarithmic parallel time, whatever the number of heads K; in "
        "practice, with serial inner products, the solution says O(J + ln T).",
        latex=r"O(\ln T+\ln J)\qquad\text{in practice: } O(J+T)",
        verdict="disputed",
        right="O(ln T + ln J) holds, and K does not lengthen it; but Out sums over T as an inner product sums over J: "
        "if all inner products are serial, the layer takes O(J + T), and O(J + ln T) only if that one is not",
        module="clearhead.costing.forms.lecture",
        test=""
        "tests/costing/test_span.py::test_L3_4_the_layer_takes_log_T_plus_log_J_and_serial_dot_products_take_J_plus_T",
        demonstration="l3_span:layer_in_parallel",
        place=Place("Problem 1(b)", 28, 30),
        printed=r"O(\ln T+\ln J)\qquad\text{in practice: } O(J+\ln T)",
        try_it=Try("clearhead cost ttic model.heads=8 --all", "more heads, and a shorter span"),
        words="parallel time logarithm heads K span serial",
    ),
    Claim(
        id="L3.5",
        title="2(a): x and y in place of t",
        statement="In two dimensions every position is a pair, and the softmax runs jointly over both coordinates.",
        latex=r"\alpha[k,x_1,y_1,x_2,y_2]=\operatorname{softmax}_{x_2,y_2}\sum_{u}\text{Query}[k,x_1,y_1,u]\,\text{"
        r"Key}[k,x_2,y_2,u]\\\text{Out}[k,x,y,i]=\sum_{x',y'}\alpha[k,x,y,x',y']\,\text{Value}[k,x',y',i]",
        verdict="convention",
        right="the equations hold; but what the literature calls the spatial transformer is another network, which "
        "warps images",
        module="clearhead.attention.grid",
        test="tests/attention/test_grid.py::test_L3_5_grid_attention_is_flattened_attention_and_the_indexed_equations",
        demonstration="l3_grid:two_dimensions",
        place=Place("Problem 2(a)", 32, 48),
        printed=r"\text{the so-called spatial transformer}",
        try_it=Try(
            "clearhead show vit-b16 model.attention.kind=grid model.patches.class_token=false model.pooling=mean",
            "attention among all cells of a grid at once",
        ),
        words="image vision grid two dimensions spatial",
    ),
    Claim(
        id="L3.6",
        title="2(b): a layer over an image in O(ln XY + ln J)",
        statement="Over X × Y positions the layer takes the same parallel time as over T = XY.",
        latex=r"O(\ln XY+\ln J)",
        verdict="holds",
        module="clearhead.attention.grid",
        test="tests/costing/test_span.py::test_L3_6_two_dimensions_are_T_equal_to_XY",
        demonstration="l3_span:two_dimensions_in_parallel",
        place=Place("Problem 2(b)", 50, 52),
        try_it=Try(
            "clearhead cost vit-b16 model.attention.kind=axial model.patches.class_token=false model.pooling=mean",
            "rows, then columns: a longer path, less work",
        ),
        words="image vision grid parallel time span",
    ),
)
