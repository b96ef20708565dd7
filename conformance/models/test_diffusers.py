"""diffusers: blocks of its UNet and of its autoencoder."""

from conformance import case, module, tensor
from conformance.models.declarations import OVERFLOWS, limited_since_2_13

ONE_GRAPH = {"graph_breaks": 0}
_ATTENTION = "fallbacks.aten._scaled_dot_product_"


def resnet_block():
    from diffusers.models.resnet import ResnetBlock2D

    return ResnetBlock2D(in_channels=16, out_channels=24, temb_channels=20, groups=4)


def spatial_transformer():
    from diffusers import Transformer2DModel

    sizes = {"num_attention_heads": 2, "attention_head_dim": 16, "in_channels": 32, "cross_attention_dim": 24}
    return Transformer2DModel(**sizes, norm_num_groups=4, use_linear_projection=True)


def encoder_block():
    from diffusers.models.unets.unet_2d_blocks import DownEncoderBlock2D

    return DownEncoderBlock2D(in_channels=16, out_channels=24, resnet_groups=4)


def decoder_block():
    from diffusers.models.unets.unet_2d_blocks import UpDecoderBlock2D

    return UpDecoderBlock2D(in_channels=16, out_channels=24, resnet_groups=4)


# image: (batch, channels, height, width). time: (batch, features).
@case(
    block=module(resnet_block),
    image=tensor(2, 16, 9, 7, layout=["contiguous", "channels_last"]),
    time=tensor(2, 20),
    dtype=["f32", "bf16"],
    grad=[False, True],
    vary="one_at_a_time",
    needs="diffusers",
    require=limited_since_2_13(
        {
            "all": ONE_GRAPH | {"extern.convolution": 3},
            "forward": {"fallbacks": [], "bytes": "<=5.2", "buffers": "<=12"},
            "backward": {"fallbacks": ["aten.convolution_backward"] * 3, "bytes": "<=2.75", "buffers": "<=38"},
            "cpu forward": {"kernels": "<=5", "vectorised": "yes"},
            "cpu backward": {"kernels": "<=8"},
            "gpu forward": {"kernels": "<=8"},
            "cuda backward": {"kernels": "<=17"},
            "xpu backward": {"kernels": "<=25"},
        }
    ),
    numerics={"without": OVERFLOWS},
)
def test_resnet_block(block, image, time):
    return block(image, time)


# text: (batch, tokens, features).
@case(
    net=module(spatial_transformer),
    image=tensor(2, 32, 5, 3, layout=["contiguous", "channels_last"]),
    text=tensor(2, 5, 24),
    dtype=["f32", "bf16"],
    vary="one_at_a_time",
    needs="diffusers",
    require=limited_since_2_13(
        {
            "all": ONE_GRAPH | {"extern.bmm": "<=1", "kernels": "<=7", "bytes": "<=3.7", "buffers": "<=16"},
            "cpu": {_ATTENTION + "flash_attention_for_cpu": 2, "vectorised": "yes"},
            "cuda f32": {_ATTENTION + "efficient_attention": 2},
            "xpu": {_ATTENTION + "fused_attention_overrideable": 2},
        }
    ),
    numerics={"without": OVERFLOWS},
)
def test_spatial_transformer(net, image, text):
    return net(image, encoder_hidden_states=text, return_dict=False)  # the class of its results warns: a graph break


@case(
    block=module({"down": encoder_block, "up": decoder_block}),
    image=tensor(1, 16, 9, 7, layout=["contiguous", "channels_last"]),
    vary="one_at_a_time",
    needs="diffusers",
    require=limited_since_2_13(
        {
            "all": ONE_GRAPH | {"fallbacks": [], "extern.convolution": 4, "bytes": "<=4.4", "buffers": "<=11"},
            "cpu": {"kernels": "<=5", "vectorised": "yes"},
            "gpu": {"kernels": "<=9"},
        }
    ),
    numerics={"without": OVERFLOWS},
)
def test_autoencoder_block(block, image):
    return block(image)
