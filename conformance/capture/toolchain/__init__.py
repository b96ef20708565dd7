"""The C++ compiler: instruction sets, precompiled headers, linking, extensions."""
