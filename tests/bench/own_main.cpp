// Stacks of own runs on published runs that no shipped factor has seen: of each family of runs, K
// are drawn as one's own, and the others are predicted with their shift and spread (shrink() of
// sim/estimates/predict/own_runs). Prints errors and coverage by K, once under the shipped stacks
// for runs on the GPUs on which these were fitted, once for all runs as those of an unknown
// framework, once for each run as the former where a shipped stack has not seen it and as the
// latter elsewhere; then the families whose error five runs do not halve, with the least error that
// any predictor from the columns of the table can have. Run by `./dev bench own [TABLE]`, by
// default on the open runs with the columns that their notes state (python/calibration/runs.py);
// ends with exit code 1 if the results are not as own_clause.hpp promises.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/random.hpp"
#include "sim/estimates/predict/own_runs.hpp"
#include "sim/estimates/predict/prediction.hpp"
#include "tests/bench/own_clause.hpp"
#include "traces/files/csv.hpp"
#include "traces/published/measured_times.hpp"
#include "traces/published/published_run.hpp"
#include "traces/workload/stacks.hpp"

namespace {

using namespace orrery;

constexpr double kP90 = 1.2815515655446004;
constexpr int kDraws = 20;

/// Logarithm of measured over predicted time, and the knowledge of the shipped stack.
struct Deviation {
  estimates::OwnDeviation own;
  estimates::OwnPrior prior;
  double measured = 0;  ///< logarithm of the measured seconds
  std::string columns;  ///< job and cluster; equal for rows that no predictor can tell apart
};
using Families = std::map<std::string, std::vector<Deviation>>;

double median_of(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Returns the cells of the columns `family` and `duplicate_of` by line.
std::map<int, std::pair<std::string, bool>> families_of(const std::string& path,
                                                        const std::string& text) {
  std::map<int, std::pair<std::string, bool>> found;
  CsvReader rows(path, text);
  std::vector<std::string_view> cells;
  rows.next_row(cells);
  const auto column = [&](std::string_view name) {
    return static_cast<std::size_t>(std::find(cells.begin(), cells.end(), name) - cells.begin());
  };
  const std::size_t family = column("family"), copy = column("duplicate_of");
  while (rows.next_row(cells)) {
    if (std::max(family, copy) >= cells.size()) continue;
    found[rows.line()] = {std::string(cells[family]), !cells[copy].empty()};
  }
  return found;
}

/// Returns the deviations by family. `unknown`: all rows as those of a framework that nobody knows;
/// else rows on GPUs whose shipped factors no row of this table has fitted.
Families deviations_of(const std::string& path, bool unknown) {
  const std::string text = read_packed_text(path);
  const auto times = measured_times(path, text);
  const auto families = families_of(path, text);
  Families found;
  PublishedTable table(path, text);
  for (TableRow row; table.next(row);) {
    const auto time = times.find(row.line);
    const auto family = families.find(row.line);
    if (time == times.end() || family == families.end() || family->second.second) continue;
    if (unknown) row.framework = "a framework of one's own";
    const PublishedRun run = published_run(row);
    const estimates::Prediction p = estimates::predict_run(row.id, run);
    const bool unseen =
        unknown || p.distance.ends_with(" measured") || p.distance.ends_with(" scaled");
    if (!p.supported || !unseen) continue;
    found[family->second.first].push_back(
        {estimates::deviation_of(std::log(time->second / p.iter_time_s), run,
                                 software_stack(run.job.stack())),
         {std::log(p.p90_s / p.p10_s) / (2 * kP90), p.distance.ends_with(" measured")},
         std::log(time->second),
         run.job.SerializeAsString() + run.cluster.SerializeAsString()});
  }
  return found;
}

/// Returns the families of `known`, and those of `unknown` that are not among them.
Families united(const Families& known, const Families& unknown) {
  Families all = known;
  all.insert(unknown.begin(), unknown.end());
  return all;
}

/// Returns the prior of runs: the median spread, and whether it is known of all of them that the
/// stack was fitted on their GPUs.
estimates::OwnPrior prior_of(const std::vector<const Deviation*>& runs) {
  std::vector<double> spreads;
  bool is_fitted_here = true;
  for (const Deviation* each : runs) {
    spreads.push_back(each->prior.spread);
    is_fitted_here = is_fitted_here && each->prior.is_fitted_here;
  }
  return {median_of(std::move(spreads)), is_fitted_here};
}

/// Appends lower bounds of the errors of the runs that were left out of a draw: one prediction for
/// all runs with equal columns.
void append_least_errors(const std::vector<const Deviation*>& left_out,
                         std::vector<double>& bounds) {
  std::map<std::string, std::vector<double>> equal;
  for (const Deviation* each : left_out) equal[each->columns].push_back(each->measured);
  for (const auto& [columns, measured] : equal) {
    const std::vector<double> of = least_errors(measured);
    bounds.insert(bounds.end(), of.begin(), of.end());
  }
}

FamilyResult tried(const std::string& name, const std::vector<Deviation>& family,
                   std::size_t count, Rng& rng) {
  std::vector<double> before, after, least;
  double covered = 0;
  std::vector<std::size_t> order(family.size());
  std::iota(order.begin(), order.end(), 0);
  for (int draw = 0; draw < kDraws; ++draw) {
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
    std::vector<estimates::OwnDeviation> own;
    std::vector<const Deviation*> drawn, left_out;
    for (std::size_t i = 0; i < count; ++i) {
      drawn.push_back(&family[order[i]]);
      own.push_back(drawn.back()->own);
    }
    const estimates::Shrunk of = estimates::shrink(own, prior_of(drawn));
    for (std::size_t i = count; i < order.size(); ++i) {
      left_out.push_back(&family[order[i]]);
      const estimates::OwnDeviation& run = left_out.back()->own;
      const double value = run.value, left = value - of.shift_of(run);
      before.push_back(std::abs(std::expm1(-value)));
      after.push_back(std::abs(std::expm1(-left)));
      covered += std::abs(left) <= kP90 * of.spread;
    }
    append_least_errors(left_out, least);
  }
  const auto all = static_cast<double>(before.size());
  return {name,           family.size(),    median_of(before),
          median_of(after), median_of(least), covered / all};
}

/// Returns the results of all families with more than `count` runs.
std::vector<FamilyResult> results_of(const Families& families, std::size_t count) {
  Rng rng(count);
  std::vector<FamilyResult> found;
  for (const auto& [name, family] : families) {
    if (family.size() > count) found.push_back(tried(name, family, count, rng));
  }
  return found;
}

void print_row(std::size_t count, const std::vector<FamilyResult>& families) {
  std::vector<double> before, after, ratios;
  int halved = 0, small = 0, worse = 0;
  for (const FamilyResult& of : families) {
    before.push_back(of.before);
    after.push_back(of.after);
    if (of.before > kLargeError) {
      halved += is_halved(of);
      ratios.push_back(of.after / of.before);
    } else {
      ++small;
      worse += !is_as_promised(of);
    }
  }
  fmt::print("| {} | {} | {:.1f}% | {:.1f}% | {:.0f}% | {} of {}, median x {:.2f} | {} of {} |\n",
             count, families.size(), 100 * median_of(before), 100 * median_of(after),
             families.empty() ? 0 : 100 * mean_coverage(families), halved, ratios.size(),
             median_of(ratios), worse, small);
}

/// Prints a table by K, and the families whose error five runs do not halve. Returns the promises
/// that the table breaks.
std::vector<std::string> print_table(const std::string& title, const Families& families) {
  std::size_t rows = 0;
  for (const auto& [name, of] : families) rows += of.size();
  fmt::print("{}: {} rows, {} families, {} draws each\n\n", title, rows, families.size(), kDraws);
  fmt::print(
      "| runs | families | error with none | with these | in 80% | halved, of those above 15% | "
      "worse by a point, of the others |\n|---:|---:|---:|---:|---:|---|---|\n");
  std::vector<std::string> broken;
  std::vector<FamilyResult> judged;
  for (const std::size_t count : {1, 3, 5, 10}) {
    const std::vector<FamilyResult> results = results_of(families, count);
    print_row(count, results);
    for (std::string& each : broken_promises(count, results)) broken.push_back(std::move(each));
    if (count == kJudgedRuns) judged = results;
  }
  fmt::print("\n");
  for (const FamilyResult& of : judged) {
    if (of.before <= kLargeError || is_halved(of)) continue;
    fmt::print("not halved by five runs: {}: {} rows, error {:.1f}% with none, {:.1f}% with these, "
               "at least {:.1f}% for any predictor from these columns\n",
               of.name, of.rows, 100 * of.before, 100 * of.after, 100 * of.least);
  }
  fmt::print("\n");
  return broken;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: own_bench TABLE\n");
    return 2;
  }
  const std::string path = argv[1];
  const Families known = deviations_of(path, false), unknown = deviations_of(path, true);
  std::size_t broken = 0;
  const auto print_judged = [&broken](const std::string& title, const Families& families) {
    for (const std::string& each : print_table(title, families)) {
      fmt::print(stderr, "own_bench: {}: {}\n", title, each);
      ++broken;
    }
  };
  print_judged("shipped stacks on GPUs on which they were fitted", known);
  print_judged("all GPUs, as an unknown framework", unknown);
  print_judged("all families, as the former where they are there", united(known, unknown));
  return broken == 0 ? 0 : 1;
}
