"""t5: transformers' T5, an encoder and a decoder of one layer each: a learned bias of relative positions."""

from conformance import case, module, tensor
from conformance.models.declarations import VARIED, with_fused_attention

#: torch's fused attention of the CPU takes no bias that needs a gradient: one of three has none.
ONE_CALL_WITHOUT_BIAS = {"cpu backward": {"fallbacks.aten._scaled_dot_product_flash_attention_for_cpu": 1}}

NOT_SCALED = {
    "factor": 6,
    "reason": "measured 5 times eager's error: T5 does not scale its scores, and bfloat16 rounds large ones",
}


def encoder_decoder():
    from transformers import T5Config, T5Model

    sizes = {"d_model": 48, "d_kv": 16, "d_ff": 80, "num_heads": 3, "vocab_size": 67}
    return T5Model(T5Config(num_layers=1, num_decoder_layers=1, dropout_rate=0.0, use_cache=False, **sizes))


# source, target: (batch, length).
@case(
    net=module(encoder_decoder),
    source=tensor(2, 13, dtype="i64", low=0, high=67),
    target=tensor(2, 5, dtype="i64", low=0, high=67),
    **VARIED,
    needs="transformers",
    require=with_fused_attention(
        {
            "all": {"graph_breaks": 0, "bytes": "<=2.9"},
            "forward": {"extern.mm": 16},
            "cpu forward plain": {"kernels": "<=12", "buffers": "<=20"},
            "gpu forward plain": {"kernels": "<=13", "buffers": "<=16"},
        },
        calls=3,
        masked=True,
    )
    | ONE_CALL_WITHOUT_BIAS
    # With torch 2.11, cuDNN takes one of three where gradients are needed.
    | {"cuda_sm90 autocast backward torch<2.13": {"fallbacks.aten._scaled_dot_product_cudnn_attention": 1}},
    numerics={"for": {"cpu autocast backward": NOT_SCALED}},
)
def test_encoder_decoder(net, source, target):
    return net(input_ids=source, decoder_input_ids=target).last_hidden_state
