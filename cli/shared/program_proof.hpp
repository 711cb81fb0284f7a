// Proof of shares for `orrery run --prove`: trial runs of a user's program with equal and unequal
// shares of a step's examples, compared by their gradients. One thread; changes the environment of
// this process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/shared/program_start.hpp"

namespace orrery::cli {

/// Gradients of one trial: of each step, by parameter, the squared norm and then projections on
/// random signs, which are the same in all trials (python/orrery/programs/proving.py).
struct TrialGradients {
  struct Parameter {
    std::string name;
    std::vector<double> sums;
  };
  std::vector<std::vector<Parameter>> steps;
};

/// Difference of the gradients of two trials, relative to those of the first one.
struct GradientDifference {
  double most = 0;          ///< largest of all steps
  std::string parameter{};  ///< the one that contributes most to it
};

/// Returns the trial in the text of a rank's file. Throws an environment Error with the reason if
/// the program cannot have shares.
TrialGradients trial_of(const std::string& text);
/// Returns the difference of two trials of one program. Trials with other steps or parameters
/// differ by 1.
GradientDifference difference_of(const TrialGradients& a, const TrialGradients& b);

/// Result of a proof.
struct ShareProof {
  bool weighs = true;  ///< shares weigh the gradients at the model's output
  std::string line;    ///< the finding, for the user
};

/// Runs `steps` optimizer steps of the program with equal shares, twice, with unequal weighted ones
/// and, if these give other gradients, with unequal ones without weights. The environment must be
/// prepared. `print_line` shows a line to the user. Throws an environment Error with the reason if
/// no shares give the gradients of equal ones, or the program ends before or cannot have shares;
/// errors as ProgramRun.
ShareProof prove_shares(const Launch& launch, const std::string& executable,
                        const AttachSettings& settings, std::uint32_t steps,
                        const std::function<void(const std::string&)>& print_line);

}  // namespace orrery::cli
