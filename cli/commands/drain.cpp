// orrery drain: announces that a GPU or node of a live run will be removed.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/live_runs.hpp"
#include "cli/shared/run_orders.hpp"
#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "core/schema/yaml_loader.hpp"
#include "topologies/part.hpp"
#include "traces/scenario.pb.h"

namespace orrery::cli {
namespace {

using nlohmann::ordered_json;

/// Returns the part that a user names: "node:1", "node=1", "node 1" or "gpu:3".
Part parse_part(const std::string& text) {
  const auto is_letter = [](unsigned char letter) { return std::isalpha(letter) != 0; };
  const auto kind_end = std::find_if_not(text.begin(), text.end(), is_letter);
  const std::string kind(text.begin(), kind_end);
  const std::size_t digits = text.find_first_not_of(":= ", kind.size());
  const std::string index = digits == std::string::npos ? "" : text.substr(digits);
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(index.data(), index.data() + index.size(), number);
  const bool is_number = !index.empty() && failure == std::errc() && *end == '\0';
  const std::vector<std::string> kinds{"gpu", "node"};
  if (is_number && kind == kinds[0]) return {PartKind::gpu, number};
  if (is_number && kind == kinds[1]) return {PartKind::node, number};
  const std::string near(nearest_name(kind, kinds));
  const std::string hint =
      near.empty() ? "" : fmt::format("; did you mean {}:{}?", near, is_number ? number : 0);
  throw Error(ErrorKind::usage, fmt::format("expected a GPU or node of the run's cluster, such as "
                                            "gpu:3 or node:1, got '{}'{}",
                                            text, hint));
}

/// Options of `orrery drain`.
struct Drain {
  std::string run, part, in = "30 s", lasts;
  bool test = false;
};

/// Returns a time of the command line in seconds; 0 for an empty text. `field`: field of a fault
/// with the same rule.
double parse_time(const std::string& text, const char* field, const char* option) {
  Fault fault;
  if (text.empty()) return 0;
  set_field(fault, field, text, option);
  return to_seconds(fault.has_notice() ? fault.notice() : fault.for_());
}

/// Announces the removal of a part, and prints the answer of the run. Throws a usage Error with the
/// reason if the run refuses the order, an environment Error if it does not answer.
int drain_part(const Drain& how) {
  const Part part = parse_part(how.part);
  ordered_json order{{"part", std::string(name_of(part.kind))},
                     {"index", part.index},
                     {"in_s", parse_time(how.in, "notice", "--in")},
                     {"test", how.test}};
  const double lasts = parse_time(how.lasts, "for", "--for");
  if (lasts > 0) order["for_s"] = lasts;
  if (how.test && lasts == 0) {
    throw Error(ErrorKind::usage,
                "--test: expected --for, the time after which the part returns and is tested");
  }
  const std::string subject = part_name(part);
  order_and_wait(find_run(how.run), {{"drain", order}}, subject, subject + " is to be removed");
  return 0;
}

}  // namespace

void add_drain(CLI::App& app, Action& chosen) {
  CLI::App* leave = app.add_subcommand(
      "drain", "announce that a GPU or node of a live run will be removed, so that its ranks move");
  const auto drain = std::make_shared<Drain>();
  add_run_argument(*leave, drain->run, true);
  leave->add_option("PART", drain->part, "gpu:INDEX or node:INDEX, counted in the cluster")
      ->required();
  leave->add_option("--in", drain->in, "time until the removal")
      ->type_name("TIME")
      ->capture_default_str();
  leave->add_option("--for", drain->lasts, "time after which the part returns (default: never)")
      ->type_name("TIME");
  leave->add_flag("--test", drain->test, "start a process on each GPU of the part when it returns");
  add_examples(*leave, {"orrery drain a1B2c3 node:1 --in 30s",
                        "orrery drain a1B2c3 gpu:2 --in 1min --for 1h --test"});
  leave->callback([drain, &chosen] { chosen = [drain] { return drain_part(*drain); }; });
}

}  // namespace orrery::cli
