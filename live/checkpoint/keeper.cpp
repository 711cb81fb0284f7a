#include "live/checkpoint/keeper.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/checkpoint/agreement.hpp"
#include "live/checkpoint/archive.hpp"

namespace orrery::live {

CheckpointKeeper::CheckpointKeeper(std::unique_ptr<Store> store, Options options)
    : store_(std::move(store)),
      options_(std::move(options)),
      next_attempt_(options_.first_attempt),
      thread_([this] { run(); }) {}

CheckpointKeeper::~CheckpointKeeper() {
  if (attempt_) fail_attempt("the run has ended");  // also deletes its shards
  const std::scoped_lock lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

void CheckpointKeeper::adopt_existing(Step newest) {
  CheckpointArchive archive(*store_, options_.key);
  std::vector<CheckpointId> whole = archive.committed_attempts(options_.training);
  std::erase_if(whole, [newest](const CheckpointId& id) { return id.step > newest; });
  // Looked for now, before anything of this run is there.
  const std::vector<CheckpointId> unfinished = archive.unfinished(options_.training);
  post_job([this, whole, unfinished] {
    whole_.insert(whole_.begin(), whole.begin(), whole.end());
    broken_.insert(broken_.end(), unfinished.begin(), unfinished.end());
    clean_up();
  });
}

void CheckpointKeeper::continue_attempts(std::vector<CheckpointId> begun) {
  post_job([this, begun = std::move(begun)] { resolve_attempts(begun); });
}

void CheckpointKeeper::begin(Step step, std::uint32_t shards) {
  if (attempt_) fail_attempt("the next checkpoint was due before this one was durable");
  {
    const std::scoped_lock lock(mutex_);
    protected_.reset();
  }
  attempt_ = Attempt{.manifest = {.id = {options_.training, step, next_attempt_++},
                                  .total = options_.total,
                                  .shards = std::vector<Seal>(shards)},
                     .proofs = std::vector<ShardProof>(shards),
                     .missing = shards,
                     .deadline = std::chrono::steady_clock::now() + options_.patience};
}

void CheckpointKeeper::protect_checkpoint(const CheckpointId& id) {
  const std::scoped_lock lock(mutex_);
  protected_ = id;
}

void CheckpointKeeper::shard_durable(std::uint64_t attempt, std::uint32_t index, const Seal& seal,
                                     const ShardProof& proof) {
  if (!attempt_ || attempt_->manifest.id.attempt != attempt) return;  // given up meanwhile
  std::vector<Seal>& shards = attempt_->manifest.shards;
  if (index >= shards.size() || shards[index].size != 0) return;
  shards[index] = seal;
  attempt_->proofs[index] = proof;
  if (--attempt_->missing > 0) return;
  const std::string why = find_disagreement(attempt_->proofs);
  if (!why.empty()) return fail_attempt(why);
  post_job([this, manifest = std::move(attempt_->manifest)] { commit_manifest(manifest); });
  attempt_.reset();
}

void CheckpointKeeper::shard_failed(std::uint64_t attempt, std::uint32_t index,
                                    const std::string& why) {
  if (!attempt_ || attempt_->manifest.id.attempt != attempt) return;
  fail_attempt(fmt::format("shard {}: {}", index, why));
}

bool CheckpointKeeper::waits_for_shard(std::uint32_t index) const {
  return attempt_ && index < attempt_->manifest.shards.size() &&
         attempt_->manifest.shards[index].size == 0;
}

void CheckpointKeeper::writer_gone(std::uint32_t index) {
  if (waits_for_shard(index)) fail_attempt("a rank was lost that was writing");
}

void CheckpointKeeper::fail_attempt(const std::string& why) {
  post_job([this, id = attempt_->manifest.id, why] {
    newest_ended_ = id.attempt;
    clean_up();
    add_outcome({.step = id.step, .attempt = id.attempt, .failure = why});
  });
  attempt_.reset();
}

std::vector<CheckpointKeeper::Outcome> CheckpointKeeper::drain_outcomes() {
  if (attempt_ && std::chrono::steady_clock::now() > attempt_->deadline) {
    fail_attempt("not all ranks have written their shards in time");
  }
  const std::scoped_lock lock(mutex_);
  return std::exchange(outcomes_, {});
}

bool CheckpointKeeper::is_quiet() {
  const std::scoped_lock lock(mutex_);
  return !attempt_ && jobs_.empty();
}

bool CheckpointKeeper::is_idle() {
  const std::scoped_lock lock(mutex_);
  return !attempt_ && jobs_.empty() && outcomes_.empty();
}

// ---- the thread -----------------------------------------------------------------------------

void CheckpointKeeper::post_job(std::function<void()> job) {
  const std::scoped_lock lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

void CheckpointKeeper::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return over_ || !jobs_.empty(); });
    if (jobs_.empty()) return clean_up();
    const std::function<void()> job = jobs_.front();  // stays there until it is done: is_idle()
    lock.unlock();
    try {
      job();
    } catch (const std::exception&) {  // a folder that cannot be listed has nothing to clean up
    }
    lock.lock();
    jobs_.pop_front();
  }
}

void CheckpointKeeper::commit_manifest(const Manifest& manifest) {
  Outcome outcome{.step = manifest.id.step, .attempt = manifest.id.attempt};
  for (const Seal& shard : manifest.shards) outcome.size += shard.size;
  try {
    CheckpointArchive(*store_, options_.key).commit_manifest(manifest);
    whole_.push_back(manifest.id);
  } catch (const std::exception& error) {
    outcome.failure = error.what();
  }
  newest_ended_ = manifest.id.attempt;
  clean_up();
  add_outcome(std::move(outcome));
}

void CheckpointKeeper::resolve_attempts(const std::vector<CheckpointId>& begun) {
  CheckpointArchive archive(*store_, options_.key);
  for (const CheckpointId& id : begun) {
    Outcome outcome{.step = id.step, .attempt = id.attempt};
    try {
      outcome.size = archive.size(id);
      whole_.push_back(id);
    } catch (const std::exception& error) {
      outcome.failure = "it was incomplete when its controller died";
      // A manifest that is not valid is deleted; one that cannot be read now may be valid.
      const auto* refused = dynamic_cast<const Error*>(&error);
      const bool is_invalid = refused != nullptr && refused->kind() == ErrorKind::bad_input;
      (is_invalid ? broken_ : begun_).push_back(id);
    }
    add_outcome(std::move(outcome));
  }
  clean_up();
}

void CheckpointKeeper::clean_up() {
  for (const CheckpointId& id : given_up()) try_remove(id);
  std::erase_if(broken_, [this](const CheckpointId& id) { return try_remove(id); });
  while (whole_.size() > options_.keep && !is_protected(whole_.front()) &&
         try_remove(whole_.front())) {
    whole_.pop_front();
  }
}

bool CheckpointKeeper::is_protected(const CheckpointId& id) {
  const std::scoped_lock lock(mutex_);
  return protected_ == id;
}

/// An attempt of this keeper that has ended without being whole.
bool CheckpointKeeper::has_given_up(const CheckpointId& id) const {
  return options_.first_attempt <= id.attempt && id.attempt <= newest_ended_ &&
         std::find(whole_.begin(), whole_.end(), id) == whole_.end();
}

/// Returns the failed attempts with files. Looks in the folder each time: a slow rank may have
/// written its shard after all the others had given up.
std::vector<CheckpointId> CheckpointKeeper::given_up() {
  std::vector<CheckpointId> ids;
  try {
    CheckpointArchive archive(*store_, options_.key);
    for (const CheckpointId& id : archive.unfinished(options_.training)) {
      const bool before_us = std::find(begun_.begin(), begun_.end(), id) != begun_.end();
      if (before_us || has_given_up(id)) ids.push_back(id);
    }
    // Has its manifest, which could not be made durable.
    for (const CheckpointId& id : archive.committed_attempts(options_.training)) {
      if (has_given_up(id)) ids.push_back(id);
    }
  } catch (const std::exception&) {  // next time
  }
  return ids;
}

bool CheckpointKeeper::try_remove(const CheckpointId& id) {
  try {
    CheckpointArchive(*store_, options_.key).remove_attempt(id);
    return true;
  } catch (const std::exception&) {  // later, perhaps
    return false;
  }
}

void CheckpointKeeper::add_outcome(Outcome outcome) {
  const std::scoped_lock lock(mutex_);
  outcomes_.push_back(std::move(outcome));
}

}  // namespace orrery::live
