#include "live/run/checkpoints/run_checkpoints.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/sha256.hpp"
#include "live/checkpoint/archive.hpp"
#include "live/checkpoint/key.hpp"
#include "live/training/state_hashes.hpp"
#include "live/transport/token.hpp"
#include "traces/workload/model.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kMostWarnings = 10;
constexpr std::chrono::milliseconds kPoll{2};
constexpr int kMostRetries = 3;  // Retries at the end of a run.

std::uint64_t parameters_of(const Scenario& scenario) {
  const Job& job = scenario.job();
  return static_cast<std::uint64_t>(
      builtin_cost(job.model().builtin(), job.sequence_length()).parameters);
}

/// Returns a random number, so that two runs never write the same attempt.
std::uint64_t random_attempt() {
  std::uint64_t attempt = 0;
  std::memcpy(&attempt, make_token().data(), sizeof attempt);
  return attempt | 1;  // Number 0 means no attempt.
}

}  // namespace

std::string training_name(const Scenario& scenario, const Text& text) {
  const Job& job = scenario.job();
  Sha256 hash;
  hash.update(fmt::format("{} seed {} rate {:a} batch {} by {} sequence {} text ",
                          job.model().builtin(), scenario.run().seed(),
                          scenario.live().learning_rate(), job.global_batch(), job.micro_batch(),
                          job.sequence_length()));
  hash.update({reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size()});
  return hash.hex();
}

RunCheckpoints::RunCheckpoints(const RunRequest& request, const Text& text, const Past& past)
    : request_(request),
      settings_(request.scenario().live().checkpoints()),
      training_(training_name(request.scenario(), text)),
      total_(parameters_of(request.scenario())),
      key_(read_checkpoint_key(settings_.key())),
      every_(request.scenario().live().has_checkpoints() ? settings_.every() : 0),
      rolled_back_(past.rolled_back),
      history_(training_, settings_.keep(), past) {
  if (past.resumed) {
    resumed_ = CheckpointId{training_, past.resumed->step(), past.resumed->attempt()};
  } else if (!request.resume_from().empty()) {
    find(request.resume_from());
  }
}

void RunCheckpoints::save_to(JournalSnapshot& now) const {
  if (resumed_) *now.mutable_resumed() = resumption();
  history_.save_to(*now.mutable_checkpoints());
}

void RunCheckpoints::find(const std::string& folder) {
  const auto store = FolderStore::open(folder);
  auto search = CheckpointArchive(*store, key_).search_newest(training_, total_);
  for (const std::string& damaged : search.passed_over) {
    warnings_.push_back(fmt::format("checkpoint ignored: {}", damaged));
  }
  if (!search.newest) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format("expected a complete checkpoint of training {1} in '{0}', found none{2}{3}",
                    folder, training_.substr(0, 16), search.passed_over.empty() ? "" : ": ",
                    fmt::join(search.passed_over, "; ")));
  }
  resumed_ = search.newest;
  const std::uint64_t steps = request_.scenario().run().steps();
  if (resumed_->step < steps) return;
  throw Error(
      ErrorKind::bad_input,
      fmt::format("expected steps left after the newest checkpoint in '{}', found step {} of {} "
                  "steps; increase run.steps",
                  folder, resumed_->step, steps));
}

void RunCheckpoints::fill(Assignment& assignment) const {
  assignment.set_training(training_);
  if (resumed_) *assignment.mutable_resume() = resumption();
}

Resumption RunCheckpoints::resumption() const {
  Resumption from;
  from.set_folder(request_.resume_from());
  from.set_step(resumed_->step);
  from.set_attempt(resumed_->attempt);
  return from;
}

void RunCheckpoints::open() {
  if (!request_.scenario().live().has_checkpoints()) return;
  keeper_ = std::make_unique<CheckpointKeeper>(
      FolderStore::make_folder(settings_.folder()),
      CheckpointKeeper::Options{.training = training_,
                                .total = total_,
                                .keep = settings_.keep(),
                                .first_attempt = random_attempt(),
                                .key = key_});
  if (rolled_back_) forget_after(*rolled_back_);
  if (resumed_) keeper_->adopt_existing(resumed_->step);
  std::vector<CheckpointId> earlier = history_.take_earlier();
  if (!earlier.empty()) keeper_->continue_attempts(std::move(earlier));
}

std::uint64_t RunCheckpoints::plan(Step step, std::vector<std::uint32_t> members) {
  planned_.reset();
  const bool due = asked_ || (every_ > 0 && (step + 1) % every_ == 0);
  if (!keeper_ || !due) return 0;
  planned_ = step + 1;
  members_ = std::move(members);
  return keeper_->next_attempt();
}

void RunCheckpoints::on_commit() {
  if (!planned_) return;
  asked_ = false;
  writers_ = std::move(members_);
  history_.record_begin(*planned_, keeper_->next_attempt());
  keeper_->begin(*std::exchange(planned_, {}), static_cast<std::uint32_t>(writers_.size()));
}

std::uint64_t RunCheckpoints::retry_checkpoint(Step step, std::vector<std::uint32_t> members) {
  const bool is_asked = std::exchange(asked_, false);
  if (!keeper_ || (missing_.empty() && !is_asked) || retries_ >= kMostRetries) return 0;
  if (!is_asked) ++retries_;
  writers_ = std::move(members);
  const std::uint64_t attempt = keeper_->next_attempt();
  history_.record_begin(step, attempt);
  keeper_->begin(step, static_cast<std::uint32_t>(writers_.size()));
  return attempt;
}

void RunCheckpoints::record_shard(const ShardWritten& said) {
  if (!keeper_) return;
  if (said.failure().empty()) {
    keeper_->shard_durable(said.attempt(), said.index(), {said.size(), said.sha256()},
                           {from_wire(said.hashes()), from_wire(said.content())});
  } else {
    keeper_->shard_failed(said.attempt(), said.index(), said.failure());
  }
}

void RunCheckpoints::record_lost_rank(std::uint32_t rank) {
  const auto found = std::find(writers_.begin(), writers_.end(), rank);
  if (!keeper_ || found == writers_.end()) return;
  keeper_->writer_gone(static_cast<std::uint32_t>(found - writers_.begin()));
}

void RunCheckpoints::wait_for_writes(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (keeper_ && !keeper_->is_quiet() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPoll);
  }
}

Resumption RunCheckpoints::roll_back_to(std::optional<Step> saved) {
  Resumption from = resumed_ ? resumption() : Resumption();
  if (saved) {
    const auto known = history_.complete_attempts(*saved);
    ensure(!known.empty() && known.front().first == *saved,
           "expected the job's newest checkpoint among the complete ones");
    for (const auto& [step, attempt] : known) {
      if (!is_loadable({training_, step, attempt})) continue;
      from.set_folder(settings_.folder());
      from.set_step(step);
      from.set_attempt(attempt);
      break;
    }
  }
  forget_after(from);
  return from;
}

bool RunCheckpoints::is_loadable(const CheckpointId& id) {
  try {
    const auto store = FolderStore::open(settings_.folder());
    CheckpointArchive(*store, key_).check_whole(id, total_);
    return true;
  } catch (const Error& error) {
    add_warning(fmt::format("checkpoint ignored: {}", error.message()));
    return false;
  }
}

void RunCheckpoints::add_warning(const std::string& what) {
  if (warnings_.size() >= kMostWarnings) return;
  warnings_.push_back(what);
  // Shown at once, not only in the report.
  fmt::print(stderr, "orrery-live: warning: {}\n", what);
}

void RunCheckpoints::forget_after(const Resumption& from) {
  history_.forget_after(from.step());
  if (keeper_ && from.attempt() != 0) {
    keeper_->protect_checkpoint({training_, from.step(), from.attempt()});
  }
}

bool RunCheckpoints::is_idle() { return !keeper_ || keeper_->is_idle(); }

std::vector<RunCheckpoints::Outcome> RunCheckpoints::drain_outcomes() {
  std::vector<Outcome> done;
  if (!keeper_) return done;
  for (const CheckpointKeeper::Outcome& outcome : keeper_->drain_outcomes()) {
    if (!history_.has_attempt(outcome.attempt)) continue;  // The run has rolled back behind it.
    const bool whole = outcome.failure.empty();
    if (whole) size_ = outcome.size;
    missing_ =
        whole ? std::string()
              : fmt::format("the checkpoint of step {} failed: {}", outcome.step, outcome.failure);
    if (!history_.record_end(outcome.step, outcome.attempt, whole)) continue;
    done.push_back({outcome.step, whole});
    if (!whole) add_warning(missing_);
  }
  return done;
}

void RunCheckpoints::fill(Report& report) const {
  for (const std::string& warning : warnings_) report.add_warnings(warning);
  if (!keeper_) return;
  report.set_checkpoints_written(written());
  report.set_checkpoints_failed(failed_count());
  if (size_) report.set_checkpoint_bytes(static_cast<double>(*size_));
}

TrainingState load_checkpoint(const Assignment& assignment) {
  const Resumption& from = assignment.resume();
  const auto store = FolderStore::open(from.folder());
  const std::string key = read_checkpoint_key(assignment.scenario().live().checkpoints().key());
  return CheckpointArchive(*store, key)
      .load({assignment.training(), from.step(), from.attempt()},
            parameters_of(assignment.scenario()));
}

}  // namespace orrery::live
