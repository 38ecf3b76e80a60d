"""A small fitted semantic parser: words to a typed tree, a tree to a program, a program to steps."""
