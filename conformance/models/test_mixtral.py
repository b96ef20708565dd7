"""mixtral: transformers' Mixtral, a decoder of one layer: a router chooses two of four experts for each token."""

from conformance import case, module, tensor
from conformance.models.declarations import VARIED, with_fused_attention


def decoder():
    from transformers import MixtralConfig, MixtralModel

    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    sizes = {"hidden_size": 48, "intermediate_size": 40, "vocab_size": 67, "max_position_embeddings": 64}
    experts = {"num_local_experts": 4, "experts_implementation": "batched_mm"}
    return MixtralModel(MixtralConfig(num_hidden_layers=1, use_cache=False, **sizes, **heads, **experts))


# ids: (batch, length).
@case(
    net=module(decoder),
    ids=tensor(2, 13, dtype="i64", low=0, high=67),
    **VARIED,
    needs="transformers",
    require=with_fused_attention(
        {
            "all": {"graph_breaks": 0},
            "cpu forward plain": {"kernels": "<=8", "buffers": "<=22", "bytes": "<=2.9"},
            "gpu forward plain": {"kernels": "<=16", "buffers": "<=17", "extern.bmm": 2},
        },
        masked=True,
    ),
)
def test_decoder(net, ids):
    return net(ids).last_hidden_state
