#include "sim/planning/plan_html.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace orrery::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kDay_s = 86'400, kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr std::size_t kShownRows = 10, kShownChanges = 8;

/// Colours that colour-blind readers tell apart (Okabe and Ito), readable in black and white.
constexpr const char* kStyle =
    ".orrery-plan{font:14px/1.45 system-ui,sans-serif;color:#1a1a1a;background:#fff;"
    "max-width:1080px;padding:8px 12px}"
    ".orrery-plan h1{font-size:22px;margin:0 0 4px}.orrery-plan h2{font-size:16px;margin:24px 0 "
    "6px}.orrery-plan table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".orrery-plan th,.orrery-plan td{padding:3px 9px;text-align:right;border-bottom:1px solid "
    "#ddd;vertical-align:top}.orrery-plan th{border-bottom:2px solid #555;text-align:right}"
    ".orrery-plan .l{text-align:left}.orrery-plan .first{background:#eef5fb}"
    ".orrery-plan .key{font-size:18px;font-weight:600}.orrery-plan .cards{display:flex;flex-wrap:"
    "wrap;gap:10px 34px;margin:12px 0}.orrery-plan .warn{border-left:4px solid #d55e00;padding:"
    "3px 10px;margin:4px 0}.orrery-plan li{margin:1px 0}.orrery-plan svg{display:block;"
    "margin:6px 0}.orrery-plan svg text{fill:currentColor}"
    ".orrery-plan .grid{stroke:#ddd}.orrery-plan .wide{overflow-x:auto}"
    // A page of its own follows the reader's scheme; a notebook, which drops `body`, does not.
    "@media(prefers-color-scheme:dark){.orrery-page{background:#14171a}"
    ".orrery-page .orrery-plan{color:#e4e6e8;background:#14171a}"
    ".orrery-page .orrery-plan th,.orrery-page .orrery-plan td{border-color:#3a4046}"
    ".orrery-page .orrery-plan th{border-bottom-color:#9aa2aa}"
    ".orrery-page .orrery-plan .first{background:#1d2f3d}"
    ".orrery-page .orrery-plan .grid{stroke:#3a4046}}";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

/// Returns the number with the format, or a dash for null.
std::string shown(const Json& value, double unit, int digits, const char* suffix = "") {
  if (!value.is_number()) return "&ndash;";
  return fmt::format("{:.{}f}{}", value.get<double>() / unit, digits, suffix);
}

std::string layout_words(const Json& row) {
  std::string text;
  const Json& layout = row["layout"];
  for (const char* key : {"tensor", "context", "pipeline", "data", "expert", "chunks"}) {
    if (layout[key].get<int>() <= 1) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : " &times; ", key, layout[key].get<int>());
  }
  text += fmt::format(", micro-batch {}", layout["micro_batch"].get<int>());
  const std::string recompute = layout["recompute"];
  return recompute == "none" ? text : text + ", recompute " + recompute;
}

std::string card(const std::string& name, const std::string& value) {
  return fmt::format("<div><div class=\"key\">{}</div><div>{}</div></div>", value, name);
}

std::string dates(const Json& of) {
  return shown(of["p10"], kDay_s, 1) + " / " + shown(of["p50"], kDay_s, 1) + " / " +
         shown(of["p90"], kDay_s, 1);
}

/// Returns the number with a suffix of `--tokens`, for example "2T" for 2e12.
std::string with_suffix(double number) {
  constexpr std::pair<double, const char*> kSuffixes[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}};
  for (const auto& [unit, suffix] : kSuffixes) {
    if (number < unit) continue;
    const double share = number / unit;
    return (share < 1000 ? fmt::format("{:.4g}", share) : fmt::format("{:.0f}", share)) + suffix;
  }
  return fmt::format("{:.0f}", number);
}

std::string head_of(const Json& plan) {
  const Json& row = plan["candidates"][0];
  std::string out =
      fmt::format("<h1>Plan: {}, {} tokens</h1>", escaped(plan["model"].get<std::string>()),
                  with_suffix(plan["tokens"].get<double>()));
  out += fmt::format("<div>{} GPUs of {}, {} of them with ranks: {}</div>", row["gpus"].get<int>(),
                     escaped(row["cluster"].get<std::string>()), row["job_gpus"].get<int>(),
                     layout_words(row));
  out += "<div class=\"cards\">";
  out += card("days until the end, P10 / P50 / P90", dates(row["finish_s"]));
  out += card("million USD, P50", shown(row["cost_usd"], 1e6, 3));
  out += card("MWh, P50", shown(row["energy_j"], 3.6e9, 0));
  out += card("t of carbon dioxide", shown(row["carbon_kg"], 1000, 0));
  out += card("goodput", shown(row["goodput"], 0.01, 1, "%"));
  out += card("chance to meet the deadline", shown(row["deadline_met"], 0.01, 0, "%"));
  out += card("chance to stay within the budget", shown(row["within_budget"], 0.01, 0, "%"));
  return out + "</div>";
}

std::string list_of(const Json& texts, const char* item, const char* end) {
  std::string out;
  for (const Json& each : texts) out += item + escaped(each.get<std::string>()) + end;
  return out;
}

std::string rows_of(const Json& plan) {
  std::string out =
      "<h2>Candidates</h2><div class=\"wide\"><table><tr><th></th><th class=\"l\">cluster</th>"
      "<th>GPUs</th>"
      "<th>spare nodes</th><th class=\"l\">recovery, checkpoints</th>"
      "<th class=\"l\">layout</th><th>step, s</th><th>free, GiB</th>"
      "<th>goodput</th><th>days P10 / P50 / P90</th><th>MUSD</th><th>MWh</th><th>t CO2</th>"
      "<th>in time</th>"
      "<th>in budget</th></tr>";
  const Json& all = plan["candidates"];
  for (std::size_t i = 0; i < std::min(kShownRows, all.size()); ++i) {
    const Json& row = all[i];
    out += fmt::format(
        "<tr{}><td>{}</td><td class=\"l\">{}</td><td>{}</td><td>{}</td>"
        "<td class=\"l\">{}, every {} min</td><td class=\"l\">{}</td>"
        "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td>{}</td></tr>",
        i == 0 ? " class=\"first\"" : "", i + 1, escaped(row["cluster"].get<std::string>()),
        row["gpus"].get<int>(), row["policies"]["spare_nodes"].get<int>(),
        row["policies"]["recovery"].get<std::string>(),
        shown(row["policies"]["checkpoint_every_s"], 60, 0), layout_words(row),
        shown(row["step_time_s"], 1, 3), shown(row["memory_headroom_bytes"], kGiB, 1),
        shown(row["goodput"], 0.01, 1, "%"), dates(row["finish_s"]), shown(row["cost_usd"], 1e6, 3),
        shown(row["energy_j"], 3.6e9, 0), shown(row["carbon_kg"], 1000, 0),
        shown(row["deadline_met"], 0.01, 0, "%"), shown(row["within_budget"], 0.01, 0, "%"));
  }
  return out + fmt::format("</table></div><div>Order: {}.</div>",
                           escaped(plan["order"].get<std::string>()));
}

/// Returns a number of days for tick marks, one of 1, 2 and 5 times a power of ten.
double tick_of(double span) {
  const double power = std::pow(10, std::floor(std::log10(std::max(span, 1e-9) / 5)));
  for (const double each : {1.0, 2.0, 5.0, 10.0}) {
    if (span / (each * power) <= 8) return each * power;
  }
  return 10 * power;
}

/// Scale of the drawing of dates: days to pixels.
struct Scale {
  double first, last;
  double at(double day) const { return 60 + (day - first) / (last - first) * 800; }
};

std::string interval_bar(const Json& row, std::size_t index, const Scale& scale) {
  const Json &whole = row["finish_s"], &alone = row["finish_failures_only_s"];
  if (!whole["p90"].is_number() || !alone["p90"].is_number()) return "";
  const auto at = [&](const Json& value) { return scale.at(value.get<double>() / kDay_s); };
  const double y = 22.0 * static_cast<double>(index) + 16;
  return fmt::format(
      "<text x=\"50\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>"
      "<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"8\" fill=\"#56b4e9\"/>"
      "<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"16\" fill=\"#0072b2\"/>",
      y + 5, index + 1, at(whole["p10"]), y - 4, at(whole["p90"]) - at(whole["p10"]),
      at(alone["p10"]), y - 8, std::max(2.0, at(alone["p90"]) - at(alone["p10"])));
}

std::string drawing_of(const Json& plan) {
  const Json& all = plan["candidates"];
  const std::size_t count = std::min(kShownRows, all.size());
  Scale scale{1e300, 0};
  for (std::size_t i = 0; i < count; ++i) {
    const Json& of = all[i]["finish_s"];
    if (!of["p90"].is_number()) continue;
    scale.first = std::min(scale.first, of["p10"].get<double>() / kDay_s);
    scale.last = std::max(scale.last, of["p90"].get<double>() / kDay_s);
  }
  const Json& deadline = plan["deadline_s"];
  if (deadline.is_number()) scale.last = std::max(scale.last, deadline.get<double>() / kDay_s);
  if (scale.first >= scale.last) return "";
  const double tick = tick_of(scale.last - scale.first);
  scale.first = std::floor(scale.first / tick) * tick;
  scale.last = std::ceil(scale.last / tick) * tick;
  const double bottom = 22.0 * static_cast<double>(count) + 10;
  std::string out = fmt::format(
      "<h2>Dates: P10 to P90</h2><div class=\"wide\"><svg width=\"920\" height=\"{:.0f}\" "
      "font-size=\"12\" role=\"img\" aria-label=\"intervals of the dates\">",
      bottom + 44);
  for (double day = scale.first; day <= scale.last + tick / 2; day += tick) {
    out += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"4\" y2=\"{1:.0f}\" class=\"grid\"/>"
        "<text x=\"{0:.1f}\" y=\"{2:.0f}\" text-anchor=\"middle\">{3:g}</text>",
        scale.at(day), bottom, bottom + 15, day);
  }
  for (std::size_t i = 0; i < count; ++i) out += interval_bar(all[i], i, scale);
  if (deadline.is_number()) {
    out += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1:.0f}\" "
        "stroke=\"#d55e00\" stroke-width=\"2\" stroke-dasharray=\"6 3\"/>",
        scale.at(deadline.get<double>() / kDay_s), bottom);
  }
  out += fmt::format(
      "<text x=\"460\" y=\"{:.0f}\" text-anchor=\"middle\">days after the first "
      "step</text></svg></div>",
      bottom + 34);
  return out +
         "<div>Row by row. Dark: spread of the failures alone. Light: with the error of the "
         "step price. Dashed: the deadline.</div>";
}

std::string shares_of(const Json& row) {
  std::string out =
      "<h2>Step and run of the first row</h2><div class=\"wide\"><table><tr>"
      "<th class=\"l\">step</th><th>s</th><th class=\"l\">run</th><th>share</th></tr>";
  const std::vector<std::pair<const char*, const char*>> parts{
      {"compute_s", "kernels of the busiest stage"},
      {"inside_s", "exchanges inside layers"},
      {"exposed_s", "waiting for gradients and parameters"},
      {"pipeline_s", "waiting for other stages"},
      {"", ""},
      {"", ""},
      {"", ""}};
  std::size_t i = 0;
  for (const auto& [key, share] : row["time_shares"].items()) {
    const auto& [part, name] = parts[i++];
    std::string label = key;
    std::replace(label.begin(), label.end(), '_', ' ');
    out += fmt::format(
        "<tr><td class=\"l\">{}</td><td>{}</td><td class=\"l\">{}</td><td>{}</td>"
        "</tr>",
        name, *part == 0 ? "" : shown(row["step_parts_s"][part], 1, 3), label,
        shown(share, 0.01, 2, "%"));
  }
  return out + fmt::format(
                   "</table></div><div>{} failures on average; a checkpoint every {} steps "
                   "({} min). Policies: {}.</div>",
                   shown(row["failures"], 1, 0),
                   row["policies"]["checkpoint_every_steps"].get<std::int64_t>(),
                   shown(row["policies"]["checkpoint_every_s"], 60, 0),
                   escaped(row["policies"]["why"].get<std::string>()));
}

std::string changes_of_plan(const Json& plan) {
  const Json& all = plan["changes"];
  if (all.empty()) return "";
  std::string out =
      "<h2>One change at a time</h2><div class=\"wide\"><table><tr><th class=\"l\">change</th>"
      "<th>days saved</th><th>USD saved</th></tr>";
  for (std::size_t i = 0; i < std::min(kShownChanges, all.size()); ++i) {
    out += fmt::format("<tr><td class=\"l\">{}</td><td>{}</td><td>{}</td></tr>",
                       escaped(all[i]["change"].get<std::string>()),
                       shown(all[i]["saved_s"], kDay_s, 2), shown(all[i]["saved_usd"], 1, 0));
  }
  return out + "</table></div>";
}

std::string basis_of_plan(const Json& plan) {
  const Json &basis = plan["basis"], &nearest = plan["nearest_measured"];
  std::string out = fmt::format("<h2>Basis of the step price</h2><p>{} ({})</p>",
                                escaped(basis["state"].get<std::string>()),
                                escaped(basis["distance"].get<std::string>()));
  if (nearest.is_null()) return out;
  out += fmt::format(
      "<p>Nearest measured run: {} ({} on {} {}), distance {}: measured {} s, predicted {} s.</p>",
      escaped(nearest["id"].get<std::string>()), escaped(nearest["model"].get<std::string>()),
      nearest["gpus"].get<int>(), escaped(nearest["gpu"].get<std::string>()),
      shown(nearest["distance"], 1, 2), shown(nearest["measured_s"], 1, 3),
      shown(nearest["predicted_s"], 1, 3));
  return out + "<ul>" + list_of(nearest["differences"], "<li>", "</li>") + "</ul>";
}

}  // namespace

std::string plan_html(const nlohmann::ordered_json& plan) {
  std::string out = fmt::format(
      "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Plan: {}</title>"
      "<style>{}</style></head><body class=\"orrery-page\"><div class=\"orrery-plan\">",
      escaped(plan["model"].get<std::string>()), kStyle);
  if (plan["candidates"].empty()) {
    return out + "<p>" + escaped(plan["why"].get<std::string>()) + "</p></div></body></html>\n";
  }
  out += head_of(plan);
  out += list_of(plan["warnings"], "<div class=\"warn\">", "</div>");
  out += drawing_of(plan) + rows_of(plan);
  out += "<h2>Why the first row</h2><p>" + escaped(plan["why"].get<std::string>()) + "</p>";
  out += shares_of(plan["candidates"][0]) + changes_of_plan(plan);
  out += basis_of_plan(plan);
  out += "<h2>Assumed</h2><ul>" + list_of(plan["assumed"], "<li>", "</li>") + "</ul>";
  return out + "</div></body></html>\n";
}

}  // namespace orrery::sim
