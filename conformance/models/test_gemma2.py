"""gemma2: transformers' Gemma 2, a decoder of one layer: four norms, a soft cap of the attention, a sliding window."""

from conformance import case, module, tensor
from conformance.models.declarations import VARIED


def decoder():
    from transformers import Gemma2Config, Gemma2Model

    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    sizes = {"hidden_size": 48, "intermediate_size": 80, "vocab_size": 67, "max_position_embeddings": 64}
    return Gemma2Model(Gemma2Config(num_hidden_layers=1, use_cache=False, sliding_window=8, **sizes, **heads))


# ids: (batch, length). The soft cap of the scores keeps attention out of the fused calls: two products of matrices.
@case(
    net=module(decoder),
    ids=tensor(2, 13, dtype="i64", low=0, high=67),
    **VARIED,
    needs="transformers",
    require={
        "all": {"graph_breaks": 0, "bytes": "<=4.1"},
        "forward": {"extern.bmm": 2, "extern.mm": 7},
        "cpu forward plain": {"kernels": "<=10", "buffers": "<=24"},
        "gpu forward plain": {"kernels": "<=14", "buffers": "<=15"},
    },
)
def test_decoder(net, ids):
    return net(ids).last_hidden_state
