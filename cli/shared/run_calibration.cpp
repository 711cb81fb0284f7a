#include "cli/shared/run_calibration.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/shared/output_file.hpp"
#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_writer.hpp"
#include "sim/estimates/predict/own_runs.hpp"
#include "traces/files/csv.hpp"
#include "traces/published/measured_times.hpp"
#include "traces/published/published_run.hpp"

namespace orrery::cli {
namespace {

using estimates::OwnRun;
using estimates::OwnStack;

constexpr double kP90 = 1.2815515655446004;

std::vector<OwnRun> runs_of(const std::string& path) {
  const std::string text = read_packed_text(path);
  const std::map<int, double> times = measured_times(path, text);
  PublishedTable table(path, text);
  std::vector<OwnRun> runs;
  for (TableRow row; table.next(row);) {
    const auto time = times.find(row.line);
    PublishedRun run = published_run(row);
    if (time != times.end() && run.refusal.empty()) {
      runs.push_back({row.id, std::move(run), time->second});
      continue;
    }
    const char* const why = time == times.end() ? "no step time" : run.refusal.c_str();
    fmt::print(stderr, "{}:{}: left out: {}\n", path, row.line, why);
  }
  if (runs.empty()) {
    throw Error(ErrorKind::bad_input,
                path + ": expected a row with a step time (iter_time_s) and a price, found none");
  }
  return runs;
}

/// Returns the stack of a file with the name of the runs' stack; nothing without a file.
std::optional<SoftwareStack> basis_of(const std::string& path, const std::string& name) {
  if (path.empty()) return {};
  StackCatalog catalog;
  load_yaml_file(path, catalog);
  for (SoftwareStack& stack : *catalog.mutable_stacks()) {
    if (stack.name() != name) continue;
    fill_defaults(stack);
    return stack;
  }
  return {};
}

std::string name_of_file(const std::string& path) {
  std::string name = std::filesystem::path(path).stem().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  return "own-" + name;
}

double error_of(double predicted_s, double measured_s) {
  return 100 * (predicted_s / measured_s - 1);
}

void print_fit(const std::vector<OwnRun>& runs, const OwnStack& own) {
  fmt::print("{:<24} {:>10} {:>10} {:>8} {:>10} {:>8}\n", "run", "measured s",
             own.stack.kin().substr(0, 10), "error", "fitted", "error");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double measured = runs[i].measured_s;
    fmt::print("{:<24} {:>10.4g} {:>10.4g} {:>+7.1f}% {:>10.4g} {:>+7.1f}%\n", runs[i].id, measured,
               own.before_s[i], error_of(own.before_s[i], measured), own.after_s[i],
               error_of(own.after_s[i], measured));
  }
  const auto width = [](double spread) { return 100 * std::expm1(kP90 * spread); };
  fmt::print("times of {} x {:.3f}; median of measured over predicted {:.3f}\n", own.stack.kin(),
             std::exp(own.shrunk.shift), std::exp(own.shrunk.median));
  const estimates::Shrunk& of = own.shrunk;
  if (of.common == 0 && of.parts == estimates::PartShares{} && of.pair == 0) {
    fmt::print("the times stay those of {}: {} such deviation{} may be chance; five runs that "
               "differ in layout and sequence length tell more\n",
               own.stack.kin(), runs.size(), runs.size() == 1 ? "" : "s");
  }
  fmt::print("beside a common factor: {}\n", estimates::part_factors(of));
  fmt::print("80% of runs within +{:.0f}% (before: +{:.0f}%)\n", width(own.shrunk.spread),
             width(own.prior_spread));
}

}  // namespace

int calibrate_runs(const RunCalibration& options) {
  const std::vector<OwnRun> runs = runs_of(options.runs);
  OutputFile file(options.out);
  const std::string name = options.name.empty() ? name_of_file(options.runs) : options.name;
  const auto basis = basis_of(options.stacks, runs.front().run.job.stack());
  const OwnStack own = estimates::fit_own_stack(runs, name, basis ? &*basis : nullptr);
  StackCatalog catalog;
  *catalog.add_stacks() = own.stack;
  file.write_and_rename(
      "# Software stack of own runs, as `orrery calibrate --runs` fitted it; for "
      "`--stack`.\n" +
      to_yaml(catalog));
  print_fit(runs, own);
  return 0;
}

}  // namespace orrery::cli
