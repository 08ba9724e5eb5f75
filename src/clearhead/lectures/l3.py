"""The claims of L3, problems on parallel time and on two dimensions. Nothing here imports torch."""

from clearhead.lectures.claim import Claim

CLAIMS = (
    Claim(
        id="L3.1",
        title="Self-attention in indexed equations",
        statement="K heads with matrices of their own, scores that are not scaled, values of size I = J/K, and no "
        "output matrix: the result is the concatenation of the heads' outputs.",
        latex=r"\text{Query}[k,t,u]=\sum_{j}W^Q[k,u,j]\,h_{\text{in}}[t,j]"
        r"\\\alpha[k,t_1,t_2]=\operatorname{softmax}_{t_2}\sum_{u}\text{Query}[k,t_1,u]\,\text{Key}[k,t_2,u]"
        r"\\\text{Out}[k,t,i]=\sum_{t'}\alpha[k,t,t']\,\text{Value}[k,t',i]"
        r"\\h_{\text{out}}[t]=\text{Out}[1,t];\,\dots;\,\text{Out}[K,t]",
        verdict="holds",
        module="clearhead.attention.multihead",
        test="tests/attention/test_multihead.py::test_L3_1_the_indexed_equations",
        demonstration="l3_heads:indexed_equations",
    ),
    Claim(
        id="L3.2",
        title="A score is a sum of products; a weight is its share of Z",
        statement="The score of two positions sums the products of query and key; the weight is the exponential of "
        "the score over the sum of all of them.",
        latex=r"s[k,t_1,t_2]=\sum_{u}\text{Query}[k,t_1,u]\,\text{Key}[k,t_2,u]"
        r"\\\alpha[k,t_1,t_2]=\frac{e^{s[k,t_1,t_2]}}{\sum_{t}e^{s[k,t_1,t]}}",
        verdict="misprint",
        right="the sum runs over the features u; the handwritten note sums over j",
        module="clearhead.attention.score",
        test="tests/attention/test_attend.py::test_L3_2_scores_sum_over_features_not_positions",
        demonstration="l3_heads:sum_over_features",
    ),
    Claim(
        id="L3.3",
        title="1(a): the softmax in O(ln T + ln U)",
        statement="With as many processors as could be used, scores over U features and the normaliser over T "
        "positions take the sum of two logarithms; in practice the inner products are serial, and take U.",
        latex=r"O(\ln T+\ln U)\qquad\text{in practice: } O(U+\ln T)",
        verdict="holds",
        module="clearhead.costing.forms.lecture",
        test="tests/costing/test_span.py::test_L3_3_scores_and_softmax_take_log_U_plus_log_T",
        demonstration="l3_span:softmax_in_parallel",
    ),
    Claim(
        id="L3.4",
        title="1(b): the layer in O(ln T + ln J)",
        statement="The whole self-attention layer takes logarithmic parallel time; in practice, with serial inner "
        "products, the solution says O(J + ln T).",
        latex=r"O(\ln T+\ln J)\qquad\text{in practice: } O(J+T)",
        verdict="misprint",
        right="mixing the values is an inner product over T as well, so serial inner products give O(J + T)",
        module="clearhead.costing.forms.lecture",
        test="tests/costing/test_span.py::test_L3_4_the_layer_takes_log_T_plus_log_J_and_serial_dot_products_take_J_plus_T",
        demonstration="l3_span:layer_in_parallel",
    ),
    Claim(
        id="L3.5",
        title="2(a): x and y in place of t",
        statement="In two dimensions every position is a pair, and the softmax runs jointly over both coordinates.",
        latex=r"\alpha[k,x_1,y_1,x_2,y_2]=\operatorname{softmax}_{x_2,y_2}\sum_{u}\text{Query}[k,x_1,y_1,u]"
        r"\,\text{Key}[k,x_2,y_2,u]"
        r"\\\text{Out}[k,x,y,i]=\sum_{x',y'}\alpha[k,x,y,x',y']\,\text{Value}[k,x',y',i]",
        verdict="misprint",
        right="the equations hold; but the spatial transformer is the name of another network, which warps images",
        module="clearhead.attention.grid",
        test="tests/attention/test_grid.py::test_L3_5_grid_attention_is_flattened_attention_and_the_indexed_equations",
        demonstration="l3_grid:two_dimensions",
    ),
    Claim(
        id="L3.6",
        title="2(b): a layer over an image in O(ln XY + ln J)",
        statement="Over X × Y positions the layer takes the same parallel time as over T = XY.",
        latex=r"O(\ln XY+\ln J)",
        verdict="holds",
        module="clearhead.costing.forms.lecture",
        test="tests/costing/test_span.py::test_L3_6_two_dimensions_are_T_equal_to_XY",
        demonstration="l3_span:two_dimensions_in_parallel",
    ),
    Claim(
        id="L3.7",
        title="What heads mean emerges in training",
        statement="Heads are meant to represent different relations between words. What each of them represents is "
        "not given but learnt, and mostly hard to interpret.",
        latex=r"H(\alpha_{k,t})=-\sum_{t'}\alpha[k,t,t']\,\ln\alpha[k,t,t']",
        verdict="holds",
        module="clearhead.attention.multihead",
        test="tests/lectures/test_claims.py::test_L3_7_what_heads_attend_to_emerges_in_training",
        demonstration="l3_heads:meaning_emerges",
    ),
)
