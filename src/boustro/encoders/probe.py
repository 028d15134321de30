"""What is found out about an LM by reading one paragraph with it."""

PARAGRAPH = (
    "The ferry to the islands leaves the old harbour at half past eight, except on Sundays. Last week Dr Maria Keller "
    "of the University of Bergen took 14 students across to count seabirds; they came back with 2,300 photographs, wet "
    'boots and a broken camera. "We will go again in May," she told the Evening Post, "when the nights are short and '
    'the weather is kinder." Until then the group will sort its pictures, compare them with those of earlier years, '
    "and write a report for the Norwegian Ministry of Climate and Environment."
)
"""Plain English of this project's own."""
