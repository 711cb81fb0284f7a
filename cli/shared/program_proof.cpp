#include "cli/shared/program_proof.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/shared/warm_ranks.hpp"
#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "core/files/temporary_folder.hpp"
#include "live/programs/program_run.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kProofTick_ms = 20;
/// Largest difference of gradients that counts as rounding.
constexpr double kLimit = 0.005;
constexpr const char* kNoShares = "shares of the examples cannot be set";

/// Trials of one program, one after the other.
class Trials {
 public:
  Trials(const Launch& launch, WarmRanks& ranks, const std::string& folder, std::uint32_t steps,
         std::function<void(const std::string&)> print_line)
      : launch_(launch),
        ranks_(ranks),
        folder_(folder),
        steps_(steps),
        print_line_(std::move(print_line)) {}

  /// Runs a trial and returns the gradients of rank 0.
  TrialGradients run(bool deals_shares, bool weighs) {
    const fs::path folder = fs::path(folder_) / std::to_string(count_++);
    fs::create_directory(folder);
    ranks_.set_proof({folder.string(), steps_, deals_shares, weighs});
    live::ProgramSettings settings;
    settings.ranks = launch_.ranks;
    settings.start = [this](const live::RankStart& start) { return ranks_.start_rank(start); };
    settings.print_line = print_line_;
    settings.signal = drain_signal;
    prepare_attempt(0);
    live::ProgramRun run(settings);
    run.start();
    bool ends = false;
    while (run.advance_run(kProofTick_ms)) {
      if (ends || !has_all(folder)) continue;
      ends = true;
      run.end_run();
    }
    const live::ProgramOutcome outcome = run.finish_run();
    if (!has_all(folder)) throw early_end(outcome);
    std::ostringstream text;
    text << std::ifstream(folder / "0").rdbuf();
    return trial_of(text.str());
  }

 private:
  bool has_all(const fs::path& folder) const {
    for (std::uint32_t rank = 0; rank < launch_.ranks; ++rank) {
      if (!is_file((folder / std::to_string(rank)).string())) return false;
    }
    return true;
  }
  Error early_end(const live::ProgramOutcome& outcome) const {
    const std::string& reason = outcome.book.plain_reason();
    return Error(ErrorKind::environment,
                 fmt::format("{}: expected {} optimizer steps for --prove, the program ended "
                             "before with exit code {}{}",
                             kNoShares, steps_, outcome.exit_code,
                             reason.empty() ? "" : " (not attached: " + reason + ")"));
  }

  const Launch& launch_;
  WarmRanks& ranks_;
  const std::string folder_;
  const std::uint32_t steps_;
  const std::function<void(const std::string&)> print_line_;
  int count_ = 0;
};

}  // namespace

TrialGradients trial_of(const std::string& text) {
  const nlohmann::ordered_json read = nlohmann::ordered_json::parse(text);
  const std::string problem = read.at("problem");
  if (!problem.empty()) {
    throw Error(ErrorKind::environment, fmt::format("{}: {}", kNoShares, problem));
  }
  TrialGradients trial;
  for (const auto& step : read.at("steps")) {
    trial.steps.emplace_back();
    for (const auto& [name, sums] : step.items()) {
      trial.steps.back().push_back({name, sums.get<std::vector<double>>()});
    }
  }
  return trial;
}

GradientDifference difference_of(const TrialGradients& a, const TrialGradients& b) {
  if (a.steps.size() != b.steps.size()) return {1, "the number of steps"};
  GradientDifference most;
  for (std::size_t step = 0; step < a.steps.size(); ++step) {
    double squared = 0, norm = 0, largest = -1;
    std::string parameter;
    if (a.steps[step].size() != b.steps[step].size()) return {1, "the number of parameters"};
    for (std::size_t at = 0; at < a.steps[step].size(); ++at) {
      const auto& first = a.steps[step][at].sums;
      const auto& second = b.steps[step][at].sums;
      if (first.size() != second.size() || first.size() < 2) return {1, a.steps[step][at].name};
      double sum = 0;
      for (std::size_t each = 1; each < first.size(); ++each) {
        sum += (first[each] - second[each]) * (first[each] - second[each]);
      }
      sum /= static_cast<double>(first.size() - 1);
      squared += sum;
      norm += first[0];
      if (sum > largest) {
        largest = sum;
        parameter = a.steps[step][at].name;
      }
    }
    const double relative = norm > 0 ? std::sqrt(squared / norm) : (squared > 0 ? 1 : 0);
    if (!std::isfinite(relative)) return {1, parameter};
    if (relative > most.most) most = {relative, parameter};
  }
  return most;
}

ShareProof prove_shares(const Launch& launch, const std::string& executable,
                        const AttachSettings& settings, std::uint32_t steps,
                        const std::function<void(const std::string&)>& print_line) {
  if (launch.ranks < 2) {
    throw Error(ErrorKind::environment,
                fmt::format("{}: expected at least 2 ranks, found 1", kNoShares));
  }
  const TemporaryFolder folder("orrery-proof");
  AttachSettings attached = settings;
  attached.snapshots = folder.path_of("snapshots");
  attached.proof.folder = folder.path_of("none");
  WarmRanks ranks(launch, executable, attached, folder.path_of("."), print_line);
  const SignalWatch watch;
  if (!ranks.start_process(WarmUse::all)) {
    throw Error(ErrorKind::environment, "the proof was interrupted by a signal");
  }
  Trials trials(launch, ranks, folder.path_of("."), steps, print_line);
  const TrialGradients equal = trials.run(false, true);
  const GradientDifference noise = difference_of(equal, trials.run(false, true));
  if (noise.most > kLimit) {
    throw Error(ErrorKind::environment,
                fmt::format("{}: two trials with equal shares differ by {:.2g} of the gradient "
                            "('{}'): give the program fixed seeds for --prove",
                            kNoShares, noise.most, noise.parameter));
  }
  const GradientDifference weighted = difference_of(equal, trials.run(true, true));
  if (weighted.most <= kLimit) {
    return {true, fmt::format("proof of {} steps: with weighted shares the gradients differ by "
                              "{:.1e} (equal shares, twice: {:.1e}): shares may be set",
                              steps, weighted.most, noise.most)};
  }
  const GradientDifference plain = difference_of(equal, trials.run(true, false));
  if (plain.most <= kLimit) {
    return {false, fmt::format("proof of {} steps: the program divides by the examples of all "
                               "ranks; with shares without weights the gradients differ by {:.1e} "
                               "(with weights: {:.2g}): shares may be set",
                               steps, plain.most, weighted.most)};
  }
  throw Error(
      ErrorKind::environment,
      fmt::format("{}: expected a loss that is the mean over the examples of a batch, found one "
                  "whose gradients change with the shares by {:.2g} with weights ('{}') and {:.2g} "
                  "without: a loss across the batch (contrastive), a sum, or a mean over tokens "
                  "of examples with different lengths",
                  kNoShares, weighted.most, weighted.parameter, plain.most));
}

}  // namespace orrery::cli
