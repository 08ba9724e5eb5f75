"""The claims of L1, slides from seq2seq to the Transformer. Nothing here imports torch."""

from clearhead.lectures.claim import Claim, Place, Try

CLAIMS = (
    Claim(
        id="L1.1",
        title="Attention takes the most valuable of a pool of candidates",
        statement="Given a query and a pool of key-value pairs, attention is the sum of the values, each weighted by "
        "how close its key is to the query.",
        latex=r"\operatorname{Attention}(q,D)=\sum_{i=1}^{m}\alpha(q,k_i)\,v_i"
        r"\\\alpha(q,k_i)=\operatorname{softmax}(a(q,k_i))=\frac{\exp(q^\top k_i/\sqrt{d})}"
        r"{\sum_{j=1}^{m}\exp(q^\top k_j/\sqrt{d})}",
        verdict="misprint",
        right="the sum of the normaliser runs to m; its upper limit is missing on the slide",
        module="clearhead.attention.attend",
        test="tests/attention/test_attend.py::test_L1_1_one_query_over_a_pool_of_candidates",
        demonstration="l1_attention:pool_of_candidates",
        place=Place("How to capture the most valuable information from a pool of candidate?", 24, 36),
        printed=r"\operatorname{Attention}(q,D)=\sum_{i=1}^{m}\alpha(q,k_i)\,v_i"
        r"\\\alpha(q,k_i)=\operatorname{softmax}(a(q,k_i))=\frac{\exp(q^\top k_i/\sqrt{d})}"
        r"{\sum_{j=1}\exp(q^\top k_j/\sqrt{d})}",
        try_it=Try("clearhead show tiny model.attention.score=additive", "closeness is measured another way"),
        words="query key value weights softmax retrieval dictionary",
    ),
    Claim(
        id="L1.2",
        title="An RNN hardly encodes what is far away",
        statement="In a recurrent net, what is known about a word has to survive every later step, and hardly anything "
        "about a distant word does.",
        latex=r"\left\lVert\frac{\partial h_T}{\partial x_t}\right\rVert\to 0\quad\text{as } T-t\text{ grows}",
        verdict="holds under a condition",
        right="for nets before training; a gate that is held open does carry information far, and training has to find "
        "it",
        module="clearhead.models.influence",
        test="tests/models/test_influence.py::test_L1_2_a_recurrent_net_hardly_encodes_far_information",
        demonstration="l1_recurrent:forgetting",
        place=Place("Traditional seq2seq model", 12, 14),
        try_it=Try(
            "clearhead show rnn-luong model.decoder.attention.kind=none",
            "a net that must squeeze the source through one vector",
        ),
        words="recurrent vanishing gradient long-range lstm gru elman distance memory",
    ),
    Claim(
        id="L1.3",
        title="Seq2seq with attention, on an RNN or on a Transformer",
        statement="At every step the decoder attends to the vectors h of all source words. These may come from a "
        "recurrent net or from a Transformer.",
        latex=r"c_i=\sum_{j}\alpha(s,h_j)\,h_j\qquad s=s_{i-1}\,\text{ (Bahdanau)}\quad\text{or}\quad s=s_i"
        r"\,\text{ (Luong)}",
        verdict="holds",
        module="clearhead.blocks.alignment",
        test="tests/blocks/test_recurrent.py::test_L1_3_bahdanaus_decoder_is_its_loop",
        demonstration="l1_recurrent:seq2seq_with_attention",
        place=Place("Seq2Seq with attention", 42, 52),
        try_it=Try(
            "clearhead show rnn-bahdanau model.encoder.kind=transformer",
            "the vectors h come from a Transformer, the rest stays",
        ),
        trained=Try(
            'clearhead look runs/demo "phonograph"',
            "the letters that each step of the decoder takes most from, and the matrix of the alignment",
        ),
        words="bahdanau luong recurrent encoder decoder alignment context vector",
    ),
    Claim(
        id="L1.4",
        title="Represent, encode, decode and predict",
        statement="The Transformer is a seq2seq model in three steps: tokens become vectors with positions, the "
        "encoder encodes them, the decoder attends to the encoder's output and to its own tokens so far, and predicts "
        "the next token.",
        latex=r"x\to\operatorname{embed}(x)\to\operatorname{enc}(x)\to p(y_l\mid y_{<l};\,\operatorname{enc}(x))",
        verdict="holds",
        module="clearhead.models.seq2seq",
        test="tests/interop/test_parity.py::test_L1_4_encoder_decoders_agree",
        demonstration="l1_models:three_steps",
        place=Place("Transformer overview", 54, 81),
        try_it=Try("clearhead show tiny", "the three steps as blocks: embedding, encoder, decoder and output"),
        words="encoder decoder seq2seq embedding position architecture",
    ),
    Claim(
        id="L1.5",
        title="d_k is the number of columns of Q and K",
        statement="The scores are divided by the root of d_k, the size of the vectors that are multiplied.",
        latex=r"\operatorname{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V\qquad Q,K\in\mathbb{R}^{n\times d_k}",
        verdict="holds",
        module="clearhead.attention.multihead",
        test="tests/attention/test_multihead.py::test_L1_5_the_scale_follows_the_size_of_a_head",
        demonstration="l1_attention:scale_of_a_head",
        place=Place("Encode: self-attention", 83, 110),
        try_it=Try("clearhead show tiny model.heads=8", "the heads get smaller, and so does the root they divide by"),
        words="scaled dot-product head size scale sqrt",
    ),
    Claim(
        id="L1.6",
        title="Multi-head attention: several attentions, concatenated",
        statement="Heads attend in parallel, each with its own projections, and their results are concatenated.",
        latex=r"\operatorname{concat}(\text{head}_1,\dots,\text{head}_h)",
        verdict="holds",
        module="clearhead.attention.multihead",
        test="tests/attention/test_multihead.py::test_L1_6_heads_are_separate_attentions_concatenated",
        demonstration="l1_attention:heads_are_separate",
        place=Place("Encode: multi-head attention", 115, 128),
        try_it=Try("clearhead show tiny model.heads=1", "a single head as wide as the tokens"),
        trained=Try(
            'clearhead look runs/demo "phonograph" -o look.html',
            "every head with a matrix of its own; each can be switched off alone",
        ),
        words="multihead concat heads parallel",
    ),
    Claim(
        id="L1.7",
        title="A layer: attention, then feed-forward, each with Add & Norm",
        statement="An encoder layer normalises the sum of its input and its attention, then the sum of that and its "
        "feed-forward net.",
        latex=r"Z=\operatorname{LayerNorm}(X+\operatorname{MultiHeadAttention}(X))"
        r"\\Y=\operatorname{LayerNorm}(Z+\operatorname{FeedForward}(Z))",
        verdict="holds",
        module="clearhead.blocks.layer",
        test="tests/blocks/test_layer.py::test_L1_7_a_layer_is_attention_then_feed_forward",
        demonstration="l1_models:a_layer",
        place=Place("Encode: add and norm", 133, 139),
        try_it=Try("clearhead show tiny model.norm.place=pre", "the norm moves in front of each sublayer"),
        words="add & norm layernorm residual encoder layer post-LN",
    ),
    Claim(
        id="L1.8",
        title="The residual makes deep nets trainable",
        statement="The residual connection around each sublayer makes it possible to train many layers.",
        latex=r"x_{l}=x_{l-1}+f(x_{l-1})\qquad l=1,\dots,24",
        verdict="holds under a condition",
        right="with the norm in front of each sublayer (pre-LN); with the slides' post-LN the same 24 layers learnt as "
        "little with the residual as without it in the same 20 steps, though the gradient did come through",
        module="clearhead.blocks.residual",
        test="tests/blocks/test_residual.py::test_L1_8_the_residual_carries_the_gradient_through_24_layers",
        demonstration="l1_models:deep_with_residuals",
        place=Place("Encode: add and norm", 141),
        try_it=Try("clearhead show tiny model.residual=false", "the sum around each sublayer is gone"),
        words="residual skip connection deep pre-LN post-LN vanishing gradient warm-up training",
    ),
    Claim(
        id="L1.9",
        title="Masked self-attention: no token sees the future",
        statement="In the decoder the scores QKᵀ of later tokens are masked before the softmax, so that a token "
        "attends to itself and to earlier tokens. Later tokens have no influence on it.",
        latex=r"\operatorname{softmax}\left(\operatorname{mask}\left(\frac{QK^\top}{\sqrt{d_k}}\right)\right)V\qquad"
        r"\frac{\partial y_i}{\partial x_j}=0\quad\text{for } j>i"
        r"\\Q:\,5\times 3\qquad K^\top:\,3\times 5\qquad QK^\top:\,5\times 5",
        verdict="misprint",
        right="K has a row for each token, so Kᵀ is d_k × n: in the slide's example 3 × 5; it is drawn as 5 × 5",
        module="clearhead.attention.context",
        test="tests/models/test_contracts.py::test_L1_9_no_token_sees_the_future",
        demonstration="l1_mask:no_look_ahead",
        place=Place("Decoder: masked self-attention", 145, 165),
        printed=r"Q:\,5\times 3\qquad K^\top:\,5\times 5\qquad QK^\top:\,5\times 5",
        try_it=Try("clearhead show gpt2", "a decoder alone: every layer is causal"),
        trained=Try(
            'clearhead look runs/demo "phonograph" -o look.html',
            "all heads of the decoder are triangles, while those of the encoder and across are full",
        ),
        words="causal mask triangle future look-ahead padding cache softmax QKᵀ decoder",
    ),
    Claim(
        id="L1.10",
        title="No order inside: parallel, so positions must be added",
        statement="Attention has no notion of time. All tokens are computed at once, and without position embeddings "
        "a permutation of the tokens only permutes the outputs.",
        latex=r"f(PX)=P\,f(X)\quad\text{for every permutation } P",
        verdict="holds",
        module="clearhead.positions.absolute",
        test="tests/models/test_contracts.py::test_L1_10_without_positions_a_model_sees_a_set",
        demonstration="l1_order:order_must_be_added",
        place=Place("Summary", 174, 176),
        try_it=Try("clearhead show tiny model.position.kind=none", "the model becomes blind to order"),
        words="permutation equivariant parallel span position embedding set recurrent",
    ),
    Claim(
        id="L1.11",
        title="The memory cost is huge",
        statement="Each head stores a weight for every pair of tokens, so memory grows with the square of the length.",
        latex=r"\text{bytes}(n)=4hn^2+O(n)",
        verdict="holds under a condition",
        right="only if the weights are formed: the fused path computes the same and keeps O(n)",
        module="clearhead.attention.attend",
        test="tests/costing/test_space.py::test_L1_11_memory_grows_with_the_square_of_the_length_unless_attention_is_fused",
        demonstration="l1_order:memory_grows",
        place=Place("Summary", 178),
        try_it=Try(
            "clearhead cost tiny --n 1024 --all", "the bytes on the explicit path grow with n², on the fused one with n"
        ),
        words="memory quadratic flash attention fused bytes",
    ),
)
