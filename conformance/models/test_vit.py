"""vit: torchvision's block of ViT: attention, and an MLP with GELU."""

from conformance import case, module, tensor
from conformance.models.declarations import HUGE_OVERFLOWS, VARIED, with_fused_attention


def block():
    from torchvision.models.vision_transformer import EncoderBlock

    return EncoderBlock(num_heads=3, hidden_dim=48, mlp_dim=80, dropout=0.0, attention_dropout=0.0)


# x: (batch, patches, features).
@case(
    net=module(block),
    x=tensor(2, 13, 48),
    **VARIED,
    needs="torchvision",
    require=with_fused_attention(
        {
            "all": {"graph_breaks": 0, "bytes": "<=3.4"},
            "cpu forward": {"vectorised": "yes"},
            "cpu forward plain": {"kernels": "<=5", "buffers": "<=9"},
            "gpu forward plain": {"kernels": "<=9", "buffers": "<=6"},
        }
    ),
    numerics={"without": HUGE_OVERFLOWS},
)
def test_block(net, x):
    return net(x)
