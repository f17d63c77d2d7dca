"""The six dashboards as Python: `panels` and `board` are the vocabulary, every other file is one dashboard."""

from typing import Final

from dashboards.boards import finish_reasons, gateway, levels, output_cap, overview, thinking
from dashboards.boards.board import Board

BOARDS: Final[tuple[Board, ...]] = (
    overview.BOARD,
    output_cap.BOARD,
    thinking.BOARD,
    levels.BOARD,
    finish_reasons.BOARD,
    gateway.BOARD,
)
