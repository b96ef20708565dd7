"""gpt2: transformers' GPT-2, a decoder of one layer without a cache."""

from conformance import case, module, tensor
from conformance.models.declarations import VARIED, with_fused_attention


def decoder():
    from transformers import GPT2Config, GPT2Model

    sizes = {"n_embd": 48, "n_inner": 80, "n_head": 3, "vocab_size": 67, "n_positions": 64}
    config = GPT2Config(n_layer=1, use_cache=False, bos_token_id=None, eos_token_id=None, **sizes)
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
    return GPT2Model(config)


# ids: (batch, length).
@case(
    net=module(decoder),
    ids=tensor(2, 13, dtype="i64", low=0, high=67),
    **VARIED,
    needs="transformers",
    require=with_fused_attention(
        {
            "all": {"graph_breaks": 0, "bytes": "<=3.3"},
            "cpu forward plain": {"kernels": "<=6", "buffers": "<=15"},
            "gpu forward plain": {"kernels": "<=9", "buffers": "<=10"},
        },
        masked=True,
    ),
)
def test_decoder(net, ids):
    return net(ids).last_hidden_state
