"""bert: transformers' BERT, an encoder of one layer."""

from conformance import case, module, tensor
from conformance.models.declarations import VARIED, with_fused_attention


def encoder():
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 4, "vocab_size": 67}
    config = BertConfig(num_hidden_layers=1, max_position_embeddings=64, **sizes)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return BertModel(config, add_pooling_layer=False)


# ids: (batch, length).
@case(
    net=module(encoder),
    ids=tensor(2, 13, dtype="i64", low=0, high=67),
    **VARIED,
    needs="transformers",
    require=with_fused_attention(
        {
            "all": {"graph_breaks": 0},
            "torch>=2.13": {"bytes": "<=3.4"},
            "cpu": {"vectorised": "yes"},
            "cpu forward plain": {"kernels": "<=4", "buffers": "<=11"},
            "gpu f32 forward plain torch>=2.13": {"kernels": "<=5", "buffers": "<=7"},
        },
        head=12,
        since="torch>=2.13",  # with torch 2.11, this attention is products of matrices
    ),
)
def test_encoder(net, ids):
    return net(ids).last_hidden_state
