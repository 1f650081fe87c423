"""The style sheet of a report as a page and as a block in a notebook."""

__all__ = ["BLOCK_STYLE", "PAGE_STYLE", "ROOT"]

#: Class of the element that holds a report: every rule is bound to it, so that a notebook keeps its looks.
ROOT = "sklearn-calib-report"

_LIGHT = """
--ink:#1b2330;--soft:#5a6577;--rule:#dfe4ea;--card:#fff;--ground:#f4f6f8;--blue:#0072b2;--red:#c4500a;
--grey:#7b8594;--pale:#cfd6de;--shade:#e7ebf0;--off:#b23c17;--slight:#9a6b00;--fine:#1f7a4d;--open:#50617a;
"""
_DARK = """
--ink:#e4e9f0;--soft:#9aa6b6;--rule:#323b47;--card:#1a2028;--ground:#11151b;--blue:#5ab4ee;--red:#f08a4b;
--grey:#8793a3;--pale:#4a5563;--shade:#2a323d;--off:#f2835c;--slight:#e0b04a;--fine:#5cc48f;--open:#a3b3c9;
"""
# a notebook's ground is not known: colours that read on light and on dark, and the text takes its own
_EITHER = """
--ink:inherit;--soft:#7d8899;--rule:rgba(128,138,150,.35);--card:transparent;--ground:transparent;
--blue:#2b8fd0;--red:#dd6b20;--grey:#808b9a;--pale:rgba(128,138,150,.45);--shade:rgba(128,138,150,.2);
--off:#d9532c;--slight:#b98512;--fine:#2f9d68;--open:#7488a3;
"""

_RULES = """
R{color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
text-align:left;max-width:66rem;margin:0 auto;font-variant-numeric:tabular-nums}
R *{box-sizing:border-box}
R h1{font-size:1.7rem;line-height:1.2;margin:0 0 .2rem;font-weight:680;letter-spacing:-.01em;
overflow-wrap:anywhere;color:inherit}
R h2{font-size:1.08rem;margin:0 0 .55rem;font-weight:650;color:inherit}
R p{margin:0 0 .6rem}
R .soft{color:var(--soft)}
R .small{font-size:.84rem}
R header{margin:0 0 1.1rem}
R section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:1.05rem 1.25rem 1rem;
margin:0 0 1rem;overflow-wrap:anywhere}
R .verdict{border-left:6px solid var(--tone)}
R .verdict h2{font-size:1.22rem;color:var(--tone);margin-bottom:.35rem}
R .off{--tone:var(--off)} R .slight{--tone:var(--slight)} R .fine{--tone:var(--fine)} R .open{
--tone:var(--open)}
R .tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:.7rem 1.4rem;
margin:.9rem 0 .2rem}
R .tile b{display:block;font-size:1.42rem;font-weight:640;line-height:1.25}
R .tile span{display:block;font-size:.82rem;color:var(--soft);line-height:1.4}
R ul{margin:.1rem 0 0;padding:0 0 0 1.15rem}
R li{margin:0 0 .42rem}
R code{font:.92em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;background:var(--shade);
padding:.06em .3em;border-radius:4px}
R .pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(21rem,1fr));gap:0 1rem}
R .pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(20rem,1fr));gap:1.1rem 1.4rem}
R figure{margin:0;min-width:0}
R figure svg{width:100%;height:auto;display:block;color:var(--ink)}
R figcaption{font-size:.84rem;color:var(--soft);margin-top:.25rem}
R figcaption b{color:var(--ink);font-weight:620}
R .scroll{overflow-x:auto;margin:0 -.3rem;padding:0 .3rem}
R table{border-collapse:collapse;width:100%;font-size:.9rem;margin:0 0 .6rem;border:0;color:inherit;
background:none}
R th,R td{padding:.3rem .55rem;text-align:right;vertical-align:middle;border:0;
border-bottom:1px solid var(--rule);
white-space:nowrap;background:none;color:inherit;max-width:none}
R table{overflow-wrap:normal}
R thead th{font-size:.78rem;color:var(--soft);font-weight:600;vertical-align:bottom;white-space:nowrap}
R tbody th{text-align:left;font-weight:500;white-space:normal;min-width:10.5rem}
R td.left,R th.left{text-align:left}
R tbody tr{background:none}
R tr.out td.value,R tr.out th{font-weight:680}
R td.note{white-space:normal;text-align:left;min-width:18rem;font-size:.86rem;color:var(--soft)}
R .dot{display:inline-block;width:.55em;height:.55em;border-radius:50%;margin-right:.45em;
background:var(--pale)}
R tr.out .dot{background:var(--red)}
R .graph{width:150px;height:18px;display:inline-block;vertical-align:middle}
R .strip{width:100%;height:3.2rem;display:block;margin:.1rem 0 0}
R .axis{display:flex;justify-content:space-between;gap:1rem;font-size:.82rem;color:var(--soft);
margin:.15rem 0 .7rem}
R footer{font-size:.82rem;color:var(--soft);margin:1.2rem 0 0}
@media (max-width:40rem){R section{padding:.9rem .85rem}R h1{font-size:1.4rem}R .pair,R .pictures{
grid-template-columns:minmax(0,1fr)}}
@media print{R section{break-inside:avoid;border-color:#bbb;box-shadow:none}R .scroll{overflow:visible}
R{font-size:11.5px;max-width:none}R table{font-size:10px}R .pictures{grid-template-columns:1fr 1fr}
R .graph{width:105px}R td.note{min-width:0}}
"""


def _bound(variables: str) -> str:
    return f".{ROOT}{{{variables}}}" + _RULES.replace("R ", f".{ROOT} ").replace("R{", f".{ROOT}{{")


#: Style of a page of its own.
PAGE_STYLE = (
    ":root{color-scheme:light dark}"
    + _bound(_LIGHT)
    + f"@media (prefers-color-scheme:dark){{.{ROOT}{{{_DARK}}}}}"
    + f"@media print{{:root{{color-scheme:light}}.{ROOT}{{{_LIGHT}}}body.{ROOT}{{background:#fff}}}}"
    + f"body.{ROOT}{{margin:0;max-width:none;background:var(--ground)}}"
    + f".{ROOT} main{{max-width:66rem;margin:0 auto;padding:1.8rem 1.1rem 2.5rem}}"
)

#: Style of a block in a notebook.
BLOCK_STYLE = _bound(_EITHER)
