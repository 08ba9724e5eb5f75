"""The claims of L4: complexity, parameters, scaling and disentangled attention. Nothing here imports torch."""

from clearhead.lectures.claim import Claim

CLAIMS = (
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
)
