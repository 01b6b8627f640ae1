"""The table of deviations as CSV and Markdown."""
import csv
import os

from checks import Rows


def number(value):
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def escape(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def write_csv(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Rows.COLUMNS)
        writer.writerows(["" if value is None else value for value in row] for row in rows)


def summary(rows):
    """Of each output and figure: how often compared, deviating, unread, and the largest deviation."""
    figures = {}
    for row in rows:
        entry = figures.setdefault((row[2], row[3]), {"rows": 0, "no": 0, "unread": 0, "worst": None, "runs": set()})
        entry["rows"] += 1
        if row[9] != "yes":
            entry[row[9]] += 1
            entry["runs"].add(row[0])
        if isinstance(row[7], (int, float)):
            reference = row[6] if isinstance(row[6], (int, float)) and row[6] else None
            relative = abs(row[7] / reference) if reference else None
            if entry["worst"] is None or abs(row[7]) > abs(entry["worst"][0]):
                entry["worst"] = (row[7], relative)
    return figures


def write_summary_csv(path, figures):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["output", "figure", "compared", "deviating", "unread", "worst_deviation",
                         "worst_deviation_ratio", "runs"])
        for (output, figure), entry in figures.items():
            worst = entry["worst"] or (None, None)
            writer.writerow([output, figure, entry["rows"], entry["no"], entry["unread"],
                             *("" if w is None else w for w in worst), " ".join(map(str, sorted(entry["runs"])))])


def write_markdown(path, rows, runs, about):
    figures = summary(rows)
    with open(path, "w") as file:
        def line(*cells):
            file.write("| " + " | ".join(escape(c) for c in cells) + " |\n")

        bad = [row for row in rows if row[9] == "no"]
        unread = [row for row in rows if row[9] == "unread"]
        file.write("# Independent recheck\n\n")
        for key, value in about.items():
            file.write(f"- {key}: {value}\n")
        file.write(f"- figures compared: {len(rows)}; deviating: {len(bad)}; not readable: {len(unread)}\n\n")
        file.write("`record` rows compare the record (weir.run/1) with the captures at both ends; all others an output "
                   "of the run with the record. Times are in seconds.\n\n## Runs\n\n")
        line("run", "parameters", "compared", "deviating", "unread", "seconds")
        line(*["---"] * 6)
        for run in runs:
            own = [row for row in rows if row[0] == run["number"]]
            line(run["number"], run["words"], len(own), sum(r[9] == "no" for r in own),
                 sum(r[9] == "unread" for r in own), f"{run['took']:.0f}")
        file.write("\n## Summary by figure\n\n")
        line("output", "figure", "compared", "deviating", "unread", "largest deviation", "runs")
        line(*["---"] * 7)
        for (output, figure), entry in figures.items():
            worst = entry["worst"]
            text = "–" if worst is None else number(worst[0]) + (f" ({worst[1] * 100:.3g} %)" if worst[1] else "")
            line(output, figure, entry["rows"], entry["no"], entry["unread"], text,
                 " ".join(map(str, sorted(entry["runs"]))))
        for title, some in (("Deviations", bad), ("Not readable", unread)):
            if some:
                file.write(f"\n## {title}\n\n")
                line("run", "output", "figure", "flow", "Weir", "truth", "deviation", "tolerance", "note")
                line(*["---"] * 9)
                for row in some:
                    line(row[0], row[2], row[3], row[4], *(number(v) for v in row[5:9]), row[10])
        file.write("\n## Record against the captures\n\n")
        line("run", "figure", "flow", "Weir", "truth", "deviation", "tolerance", "ok")
        line(*["---"] * 8)
        for row in rows:
            if row[2] in ("record", "emulator") and "interval" not in row[3]:
                line(row[0], row[3] if row[2] == "record" else f"{row[2]}: {row[3]}", row[4],
                     *(number(v) for v in row[5:9]), row[9])


def write(out, rows, runs, about):
    os.makedirs(out, exist_ok=True)
    write_csv(os.path.join(out, "deviations.csv"), rows)
    write_summary_csv(os.path.join(out, "summary.csv"), summary(rows))
    write_markdown(os.path.join(out, "deviations.md"), rows, runs, about)
