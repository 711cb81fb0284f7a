// Sections of tests/live/gpu.sh on a machine with a GPU. A section prints its measurements and ends
// with a verdict; one that cannot run throws Missing with the reason.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery::live::gpu_check {

/// Exception of a section that cannot run, with the reason.
struct Missing {
  std::string reason;
};

/// Sections; each returns true if its promises hold.
bool check_codecs();
bool time_codecs();
bool check_transformer();
bool find_damage();
bool predict_steps();
bool run_one_rank();
bool run_ranks();
bool join_after_kill();
bool measure_overhead();

/// One rank of a section with several, told its orders by the section's process.
int serve_rank(const std::string& program);

/// Median of `values`, and an interval that contains the true median with probability 95% (by
/// ranks: for any distribution). At least 6 values.
struct Median {
  double value, low, high;
};
Median median_of(std::vector<double> values);

/// Sizes of a transformer's step, to which predict_steps() fits its coefficients.
struct StepSize {
  std::uint64_t layers, hidden, heads, wide, sequences, length;
};
std::vector<double> step_features(const StepSize& size);
/// Coefficients, none below 0, with the least squares of relative errors.
std::vector<double> fit(const std::vector<StepSize>& sizes, const std::vector<double>& seconds);
double predict(const StepSize& size, const std::vector<double>& coefficients);

/// "within 2%": the interval is; an interval that reaches across is too noisy, and not within.
enum class Verdict { within, beyond, noisy };
Verdict judge(const Median& ratio, double most);

}  // namespace orrery::live::gpu_check
