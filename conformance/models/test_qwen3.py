"""qwen3: transformers' Qwen3, a decoder of one layer: as Llama, with a norm of queries and keys."""

from conformance import case, module, tensor
from conformance.models.declarations import VARIED, with_fused_attention


def decoder():
    from transformers import Qwen3Config, Qwen3Model

    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    sizes = {"hidden_size": 48, "intermediate_size": 80, "vocab_size": 67, "max_position_embeddings": 64}
    return Qwen3Model(Qwen3Config(num_hidden_layers=1, use_cache=False, **sizes, **heads))


# ids: (batch, length).
@case(
    net=module(decoder),
    ids=tensor(2, 13, dtype="i64", low=0, high=67),
    **VARIED,
    needs="transformers",
    require=with_fused_attention(
        {
            "all": {"graph_breaks": 0, "bytes": "<=3.7"},
            "forward": {"extern.mm": 7},
            "cpu forward plain": {"kernels": "<=8", "buffers": "<=20"},
            "gpu forward plain": {"kernels": "<=12", "buffers": "<=16"},
        },
        masked=True,
    ),
)
def test_decoder(net, ids):
    return net(ids).last_hidden_state
