"""whisper: the encoder of transformers' Whisper, of one layer: two convolutions over time, then attention."""

from conformance import case, module, tensor
from conformance.models.declarations import OVERFLOWS, VARIED, with_fused_attention

KEYS_CANCEL = {
    "factor": 6,
    "reason": "measured 5.6 times, with `edges`: what all keys share cancels in the gradient of their weights",
}


IN_BF16 = {
    "factor": 20,
    "reason": "measured 13 times on an H100, with `denormals`: the same, and autocast computes gradients in bf16",
}


def encoder():
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    sizes = {"d_model": 48, "encoder_ffn_dim": 80, "encoder_attention_heads": 3, "num_mel_bins": 16}
    return WhisperEncoder(WhisperConfig(encoder_layers=1, max_source_positions=13, dropout=0.0, **sizes))


# features: (batch, mel bins, frames).
@case(
    net=module(encoder),
    features=tensor(2, 16, 26),
    **VARIED,
    needs="transformers",
    require=with_fused_attention(
        {
            "all": {"graph_breaks": 0, "bytes": "<=3.8", "extern.convolution": 2},
            "cpu": {"vectorised": "yes"},
            "cpu forward plain": {"kernels": "<=7", "buffers": "<=12"},
            "gpu forward plain": {"kernels": "<=13", "buffers": "<=10"},
        }
    ),
    numerics={
        "without": OVERFLOWS,
        "for": {"f32 backward plain": KEYS_CANCEL, "cuda f32 backward autocast": IN_BF16},
    },
)
def test_encoder(net, features):
    return net(features).last_hidden_state
