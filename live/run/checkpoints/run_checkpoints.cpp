#include "live/run/checkpoints/run_checkpoints.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/sha256.hpp"
#include "live/checkpoint/archive.hpp"
#include "live/checkpoint/key.hpp"
#include "live/checkpoint/spread_store.hpp"
#include "live/run/files/warning_line.hpp"
#include "live/training/state_hashes.hpp"
#include "live/transport/token.hpp"
#include "policies/record/wire.hpp"
#include "traces/workload/model.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kMostWarnings = 10;
constexpr std::chrono::milliseconds kPoll{2};
constexpr int kMostRetries = 3;                  // Retries at the end of a run.
constexpr const char* kManifests = "manifests";  // Folder beside those of the nodes.

std::uint64_t parameters_of(const Scenario& scenario) {
  const Job& job = scenario.job();
  return static_cast<std::uint64_t>(
      builtin_cost(job.model().builtin(), job.sequence_length()).parameters);
}

/// Opens the checkpoints in a folder to read them. Throws bad_input if the folder cannot be opened.
std::unique_ptr<Store> open_existing(const std::string& folder, bool in_memory) {
  if (in_memory) return std::make_unique<SpreadStore>(folder, std::vector<std::string>());
  return FolderStore::open(folder);
}

/// Returns the attempts of training `training` that the journal of an earlier controller names, by
/// tier, oldest first: complete, failed, and in flight. The keeper deletes the files of all that
/// are not retained. Throws bad_input for an unknown tier.
std::map<Tier, std::vector<CheckpointId>> named_attempts(const Past& past,
                                                         const std::string& training) {
  std::map<Tier, std::vector<CheckpointId>> named;
  const auto add = [&](TierRecord tier, Step step, std::uint64_t attempt) {
    if (attempt == 0) return;
    named[wire::to_enum<Tier>(tier, TierRecord_IsValid, "tier")].push_back(
        {training, step, attempt});
  };
  if (past.snapshot) {
    for (const KeptCheckpoint& kept : past.snapshot->checkpoints().begun()) {
      add(kept.tier(), kept.step(), kept.attempt());
    }
  }
  for (const JournalCommit& commit : past.commits) {
    add(commit.tier(), commit.step() + 1, commit.checkpoint());
  }
  return named;
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

RunCheckpoints::RunCheckpoints(const RunRequest& request, const Text& text, const Past& past,
                               CheckpointMemory memory)
    : request_(request),
      settings_(request.scenario().checkpoints()),
      training_(training_name(request.scenario(), text)),
      total_(parameters_of(request.scenario())),
      key_(read_checkpoint_key(settings_.key())),
      memory_(std::move(memory)),
      periodic_{request.scenario().has_checkpoints() ? settings_.every() : 0,
                Tier::local_disk},
      rolled_back_(past.rolled_back),
      earlier_(named_attempts(past, training_)),
      now_(past.checkpoints) {
  if (const auto step = newest_failure(now_, TIER_LOCAL_DISK)) {
    missing_ = fmt::format("the checkpoint of step {} failed under an earlier controller", *step);
  }
  if (past.resumed) {
    resumed_ = CheckpointId{training_, past.resumed->step(), past.resumed->attempt()};
  } else if (!request.resume_from().empty()) {
    find(request.resume_from());
  }
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
  if (!request_.scenario().has_checkpoints()) return;
  std::map<Tier, std::vector<CheckpointId>> earlier = std::move(earlier_);
  for (const Tier tier : {Tier::memory, Tier::peer, Tier::local_disk, Tier::storage}) {
    const bool is_used = !is_in_memory(tier) && !folder(tier).empty();
    if (earlier.contains(tier) || is_used) writer(tier);
  }
  refuse_one_folder();
  if (rolled_back_) forget_after(*rolled_back_);
  if (resumed_) writer(Tier::local_disk).keeper->adopt_existing(resumed_->step);
  for (auto& [tier, attempts] : earlier) {
    writer(tier).keeper->continue_attempts(std::move(attempts));
  }
}

/// Two keepers of one folder would delete each other's checkpoints.
void RunCheckpoints::refuse_one_folder() const {
  const std::string& storage = settings_.storage();
  if (storage.empty() || !std::filesystem::equivalent(storage, settings_.folder())) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("checkpoints.storage: expected another folder than "
                          "checkpoints.folder, found '{}' twice",
                          storage));
}

std::string RunCheckpoints::folder(Tier tier) const {
  if (tier == Tier::storage) return settings_.storage();
  if (!is_in_memory(tier)) return settings_.folder();
  if (memory_.folder.empty()) return {};
  return memory_.folder + (tier == Tier::memory ? "/memory" : "/peer");
}

RunCheckpoints::Writer& RunCheckpoints::writer(Tier tier) {
  Writer& writer = writers_[tier];
  if (writer.keeper) return writer;
  std::unique_ptr<Store> store;
  if (is_in_memory(tier)) {
    store = std::make_unique<SpreadStore>(folder(tier), std::vector<std::string>{kManifests});
  } else {
    store = FolderStore::make_folder(folder(tier));
  }
  writer.keeper = std::make_unique<CheckpointKeeper>(
      std::move(store), CheckpointKeeper::Options{.training = training_,
                                                  .total = total_,
                                                  .keep = is_in_memory(tier) ? 1 : settings_.keep(),
                                                  .first_attempt = random_attempt(),
                                                  .key = key_});
  return writer;
}

std::uint64_t RunCheckpoints::plan(Step step, std::vector<std::uint32_t> members) {
  planned_.reset();
  const std::optional<Tier> due = asked_.due(step + 1, periodic_);
  if (!is_enabled() || !due) return 0;
  planned_ = Attempt{.step = step + 1,
                     .tier = *due,
                     .attempt = writer(*due).keeper->next_attempt(),
                     .writers = std::move(members)};
  if (is_in_memory(*due)) {
    std::vector<GpuId> gpus;
    for (const std::uint32_t rank : planned_->writers) gpus.push_back({rank});
    planned_->holders = copy_holders(*due, *memory_.cluster, gpus);
  }
  return planned_->attempt;
}

void RunCheckpoints::fill(StepPlan& plan) const {
  plan.set_checkpoint(planned());
  if (!planned_ || planned_->tier == Tier::local_disk) return;
  plan.set_folder(folder(planned_->tier));
  for (const CopyHolders& shard : planned_->holders) {
    ShardHolders& holders = *plan.add_holders();
    holders.set_node(shard.node.value);
    holders.set_peer(shard.peer.value);
  }
}

void RunCheckpoints::begin(Attempt attempt) {
  Writer& writer = this->writer(attempt.tier);
  writer.ranks = attempt.writers;
  begin_attempt(now_, attempt.step, attempt.attempt, wire::to_record<TierRecord>(attempt.tier));
  writer.keeper->begin(attempt.step, static_cast<std::uint32_t>(writer.ranks.size()));
  if (is_in_memory(attempt.tier)) copies_[attempt.attempt] = std::move(attempt);
}

void RunCheckpoints::on_commit() {
  if (!planned_) return;
  asked_.remove_request(planned_->tier);
  begin(*std::exchange(planned_, {}));
}

std::uint64_t RunCheckpoints::retry_checkpoint(Step step, std::vector<std::uint32_t> members) {
  const bool is_asked = is_requested();
  asked_ = SaveRequests();
  if (!is_enabled() || (missing_.empty() && !is_asked) || retries_ >= kMostRetries) return 0;
  if (!is_asked) ++retries_;
  const std::uint64_t attempt = writer(Tier::local_disk).keeper->next_attempt();
  begin({.step = step, .attempt = attempt, .writers = std::move(members)});
  return attempt;
}

void RunCheckpoints::record_shard(const ShardWritten& said) {
  // Numbers of attempts are random, so that only one keeper knows the attempt.
  for (const auto& [tier, writer] : writers_) {
    if (said.failure().empty()) {
      writer.keeper->shard_durable(said.attempt(), said.index(), {said.size(), said.sha256()},
                                   {from_wire(said.hashes()), from_wire(said.content())});
    } else {
      writer.keeper->shard_failed(said.attempt(), said.index(), said.failure());
    }
  }
}

bool RunCheckpoints::waits_for_rank(std::uint32_t rank) const {
  return std::any_of(writers_.begin(), writers_.end(), [rank](const auto& each) {
    const Writer& writer = each.second;
    const auto found = std::find(writer.ranks.begin(), writer.ranks.end(), rank);
    return found != writer.ranks.end() &&
           writer.keeper->waits_for_shard(static_cast<std::uint32_t>(found - writer.ranks.begin()));
  });
}

void RunCheckpoints::record_lost_rank(std::uint32_t rank) {
  for (const auto& [tier, writer] : writers_) {
    const auto found = std::find(writer.ranks.begin(), writer.ranks.end(), rank);
    if (found == writer.ranks.end()) continue;
    writer.keeper->writer_gone(static_cast<std::uint32_t>(found - writer.ranks.begin()));
  }
}

void RunCheckpoints::record_lost_node(NodeId node) {
  if (memory_.folder.empty()) return;
  for (const Tier tier : {Tier::memory, Tier::peer}) SpreadStore::remove_node(folder(tier), node);
  for (auto each = copies_.begin(); each != copies_.end();) {
    Attempt& attempt = each->second;
    const std::vector<CopyHolders> before = attempt.holders;
    const bool is_held = remove_holder(attempt.holders, node);
    // An attempt without writers is complete and known to the policies.
    const bool is_complete = attempt.writers.empty();
    if (is_held && (is_complete || attempt.holders == before)) {
      ++each;
      continue;
    }
    if (is_complete) {
      forget_attempt(now_, each->first);
    } else {
      const std::string why = fmt::format("node {} held copies and is lost", node.value);
      writer(attempt.tier).keeper->shard_failed(each->first, 0, why);
    }
    each = copies_.erase(each);
  }
}

void RunCheckpoints::wait_for_writes(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const auto is_quiet = [](const auto& each) { return each.second.keeper->is_quiet(); };
  while (!std::all_of(writers_.begin(), writers_.end(), is_quiet) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPoll);
  }
}

Resumption RunCheckpoints::roll_back_to(std::optional<Step> saved) {
  Resumption from = resumed_ ? resumption() : Resumption();
  if (saved) {
    for (const NamedAttempt& known : complete_attempts(now_, *saved)) {
      if (!is_loadable({training_, known.step, known.attempt}, known.tier)) continue;
      from.set_folder(folder(known.tier));
      from.set_in_memory(is_in_memory(known.tier));
      from.set_step(known.step);
      from.set_attempt(known.attempt);
      break;
    }
  }
  forget_after(from);
  return from;
}

bool RunCheckpoints::is_loadable(const CheckpointId& id, Tier tier) {
  try {
    const auto store = open_existing(folder(tier), is_in_memory(tier));
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
  print_warning(what);  // Shown at once, not only in the report.
}

void RunCheckpoints::forget_after(const Resumption& from) {
  live::forget_after(now_, from.step());
  std::erase_if(copies_, [&](const auto& each) { return each.second.step > from.step(); });
  if (from.attempt() == 0) return;
  for (const auto& [tier, writer] : writers_) {
    writer.keeper->protect_checkpoint({training_, from.step(), from.attempt()});
  }
}

bool RunCheckpoints::is_idle() {
  return std::all_of(writers_.begin(), writers_.end(),
                     [](const auto& each) { return each.second.keeper->is_idle(); });
}

std::vector<RunCheckpoints::Outcome> RunCheckpoints::drain_outcomes() {
  std::vector<Outcome> done;
  for (const auto& [tier, writer] : writers_) {
    for (const CheckpointKeeper::Outcome& outcome : writer.keeper->drain_outcomes()) {
      if (auto known = record_outcome(tier, outcome)) done.push_back(*std::move(known));
    }
  }
  return done;
}

std::optional<RunCheckpoints::Outcome> RunCheckpoints::record_outcome(
    Tier tier, const CheckpointKeeper::Outcome& outcome) {
  // The run has rolled back behind the attempt, or an earlier controller has reported its failure.
  if (!has_attempt(now_, outcome.attempt)) return {};
  std::string failure = outcome.failure;
  const auto copies = copies_.find(outcome.attempt);
  const bool is_known = copies != copies_.end() || is_complete(now_, outcome.attempt);
  if (failure.empty() && is_in_memory(tier) && !is_known) {
    failure = "a node that held copies was lost before the checkpoint was reported";
  }
  const bool whole = failure.empty();
  if (whole) size_ = outcome.size;
  if (!whole) failure = fmt::format("the checkpoint of step {} failed: {}", outcome.step, failure);
  if (tier == Tier::local_disk) missing_ = failure;
  Outcome known{.step = outcome.step, .whole = whole, .tier = tier};
  if (copies != copies_.end() && whole) {
    known.holders = copies->second.holders;
    copies->second.writers.clear();
    std::erase_if(copies_, [&](const auto& each) {  // the keeper retains the newest one
      return each.second.tier == tier && each.second.writers.empty() &&
             each.first != outcome.attempt;
    });
  } else if (copies != copies_.end()) {
    copies_.erase(copies);
  }
  if (!end_attempt(now_, outcome.attempt, whole, settings_.keep())) return {};
  if (!whole) add_warning(failure);
  return known;
}

void RunCheckpoints::fill(Report& report) const {
  for (const std::string& warning : warnings_) report.add_warnings(warning);
  if (!is_enabled()) return;
  report.set_checkpoints_written(written());
  report.set_checkpoints_failed(failed_count());
  if (size_) report.set_checkpoint_bytes(static_cast<double>(*size_));
}

TrainingState load_checkpoint(const Assignment& assignment) {
  const Resumption& from = assignment.resume();
  const auto store = open_existing(from.folder(), from.in_memory());
  const std::string key = read_checkpoint_key(assignment.scenario().checkpoints().key());
  return CheckpointArchive(*store, key)
      .load({assignment.training(), from.step(), from.attempt()},
            parameters_of(assignment.scenario()));
}

}  // namespace orrery::live
