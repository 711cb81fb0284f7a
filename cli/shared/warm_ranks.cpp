#include "cli/shared/warm_ranks.hpp"

#include <cstdlib>
#include <optional>
#include <utility>

#include "cli/shared/user_program.hpp"

namespace orrery::cli {
namespace {

using State = live::WarmProcess::State;

/// Variables that differ between the ranks or the attempts.
constexpr std::array<const char*, 6> kRankVariables{
    "RANK", "LOCAL_RANK", "ROLE_RANK", "ORRERY_RUN", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"};

live::Fields rank_environment() {
  live::Fields all;
  for (const char* name : kRankVariables) {
    const char* const value = std::getenv(name);
    all.push_back(std::string(name) + "=" + (value == nullptr ? "" : value));
  }
  return all;
}

}  // namespace

WarmRanks::WarmRanks(const Launch& launch, const std::string& executable, AttachSettings settings,
                     const std::string& folder, std::function<void(const std::string&)> print_line)
    : launch_(launch),
      executable_(executable),
      settings_(std::move(settings)),
      print_line_(std::move(print_line)),
      cold_(starter_of(launch, executable, settings_)),
      warm_(folder) {}

bool WarmRanks::start_process(WarmUse use) {
  if (use == WarmUse::none) return true;
  if (!live::can_be_warm(executable_)) {
    print_line_("new ranks import PyTorch anew: a warm process needs a program of python");
    return true;
  }
  use_ = use;
  set_attachment(settings_, {}, warm_.answer_path());
  warm_.start(executable_, {launch_.command.begin() + 1, launch_.command.end()});
  while (use == WarmUse::all && warm_.read_state() == State::importing) {
    if (drain_signal() != 0) return false;
    warm_.pause_short();
  }
  return true;
}

void WarmRanks::set_proof(const ProofSettings& proof) {
  settings_.proof = proof;
  cold_ = starter_of(launch_, executable_, settings_);
}

void WarmRanks::print_problem() {
  print_line_("new ranks import PyTorch anew: " + warm_.problem());
  use_ = WarmUse::none;
}

live::StartedRank WarmRanks::start_rank(const live::RankStart& start) {
  const bool is_first = first_starts_ < launch_.ranks && !start.is_replacement;
  if (is_first) ++first_starts_;
  if (use_ == WarmUse::none || (is_first && use_ == WarmUse::spares)) return cold_(start);
  if (warm_.read_state() == State::ready) {
    set_rank(settings_, start);
    if (std::optional<ChildProcess> rank = warm_.fork_rank(rank_environment())) {
      return {std::move(*rank), true};
    }
  }
  if (warm_.read_state() == State::unusable) print_problem();
  return cold_(start);
}

}  // namespace orrery::cli
