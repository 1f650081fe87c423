"""What is read in the legend of a display."""


def legend_texts(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]
