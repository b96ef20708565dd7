"""Our pass over Inductor's graphs, as inference engines have them: it replaces written-out norms by one operator."""

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.pattern_matcher import PatternMatcherPass, fwd_only, register_replacement

from engine import layers, operators  # noqa: F401 - registers engine::add_rms_norm


def replacement(hidden, residual, weight):
    return torch.ops.engine.add_rms_norm(hidden, residual, weight, layers.EPS)


class AddRmsNormPass(CustomGraphPass):
    """Replaces each `layers.add_rms_norm` in a graph by engine::add_rms_norm."""

    def __init__(self):
        self.patterns = PatternMatcherPass()
        for dtype in (torch.bfloat16, torch.float16):
            example = [torch.empty(4, 8, dtype=dtype), torch.empty(4, 8, dtype=dtype), torch.empty(8, dtype=dtype)]
            register_replacement(
                layers.add_rms_norm, replacement, example, fwd_only, [self.patterns], skip_duplicates=True
            )

    def __call__(self, graph):
        self.patterns.apply(graph)

    def uuid(self):
        """Inductor's caches compile again when the files of our pass change."""
        return get_hash_for_files((__file__, layers.__file__))


#: torch.compile(layer, options=COMPILED_WITH)
COMPILED_WITH = {"post_grad_custom_post_pass": AddRmsNormPass()}
