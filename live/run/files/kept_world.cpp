#include "live/run/files/kept_world.hpp"

#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "policies/record/encoding.hpp"

namespace orrery {
namespace {

using live::KeptJob;
using live::KeptWorld;

void encode_settings(const Settings& now, KeptJob& kept) {
  const auto add = [&kept](const Setting& setting) { encode(setting, *kept.add_now()); };
  add(now.get<Shares>());
  add(now.get<CollectiveTable>());
  add(now.get<CodecRules>());
  add(now.get<CheckpointPlan>());
  add(now.get<OnLoss>());
  add(now.get<Batch>());
  add(now.get<Delay>());
  add(now.get<PowerCap>());
  add(now.get<Prefetch>());
  static_assert(std::variant_size_v<Setting> == 9, "write every kind of setting above");
}

void encode_job(const JobInfo& job, KeptJob& kept) {
  encode(job.spec, *kept.mutable_spec());
  kept.set_phase(static_cast<std::uint32_t>(job.phase));
  kept.set_epoch(job.epoch.value);
  kept.set_step(job.step);
  kept.set_saved(job.saved);
  kept.set_saved_at(job.saved_at);
  for (const HeldCheckpoint& checkpoint : job.checkpoints.all()) {
    EventRecord save;
    const SaveDone done{.job = job.spec.id,
                        .step = checkpoint.step,
                        .tier = checkpoint.tier,
                        .stalled = 0,
                        .took = 0,
                        .durable = true,
                        .holders = checkpoint.holders};
    encode(Event{done}, save);
    live::KeptSave& out = *kept.add_checkpoints();
    *out.mutable_save() = std::move(*save.mutable_save_done());
    out.set_at(checkpoint.at);
  }
  kept.set_started(job.started);
  kept.set_gpu_seconds(job.gpu_seconds);
  kept.set_standing_since(job.standing_since);
  encode(Standing{job.gpus, job.layout}, *kept.mutable_where());
  if (job.next) encode(*job.next, *kept.mutable_next());
  kept.set_restarting(job.is_restarting);
  encode_settings(job.now, kept);
  for (const RankId rank : job.lost) kept.add_lost(rank.value);
  for (const RankId rank : job.suspected) kept.add_suspected(rank.value);
}

void decode_job(const KeptJob& kept, JobInfo& job) {
  if (kept.phase() > static_cast<std::uint32_t>(JobPhase::done)) {
    throw Error(ErrorKind::bad_input, "expected a known phase of a job, found an unknown one");
  }
  job.phase = static_cast<JobPhase>(kept.phase());
  job.epoch = {kept.epoch()};
  job.step = kept.step();
  job.saved = kept.saved();
  job.saved_at = kept.saved_at();
  for (const live::KeptSave& checkpoint : kept.checkpoints()) {
    EventRecord save;
    *save.mutable_save_done() = checkpoint.save();
    SaveDone done = std::get<SaveDone>(decode(save));
    job.checkpoints.add_checkpoint(
        {done.step, done.tier, checkpoint.at(), std::move(done.holders)});
  }
  job.started = kept.started();
  job.gpu_seconds = kept.gpu_seconds();
  job.standing_since = kept.standing_since();
  Standing where = decode(kept.where());
  job.gpus = std::move(where.gpus);
  job.layout = where.layout;
  if (kept.has_next()) job.next = decode(kept.next());
  job.is_restarting = kept.restarting();
  for (const SettingRecord& setting : kept.now()) job.now.set_setting(decode(setting));
  for (const std::uint32_t rank : kept.lost()) job.lost.push_back({rank});
  for (const std::uint32_t rank : kept.suspected()) job.suspected.push_back({rank});
}

}  // namespace

struct World::Kept {
  static bool write(const World& world, KeptWorld& kept);
  static void read(const KeptWorld& kept, World& world);

 private:
  static void encode_precedence(const Precedence& precedence, live::KeptPrecedence& out);
  static Precedence decode_precedence(const live::KeptPrecedence& kept);
  static void encode_decided(const DecidedSetting& setting, live::KeptSettings& out);
  static std::vector<DecidedSetting> decode_decided(const live::KeptSettings& kept);
};

void World::Kept::encode_precedence(const Precedence& precedence, live::KeptPrecedence& out) {
  out.set_step(precedence.step);
  out.set_decision(precedence.decision);
}

World::Precedence World::Kept::decode_precedence(const live::KeptPrecedence& kept) {
  return {.step = kept.step(), .decision = kept.decision()};
}

void World::Kept::encode_decided(const DecidedSetting& setting, live::KeptSettings& out) {
  encode(setting.what, *out.add_settings());
  encode_precedence(setting.precedence, *out.add_precedences());
}

std::vector<World::DecidedSetting> World::Kept::decode_decided(const live::KeptSettings& kept) {
  if (kept.settings_size() != kept.precedences_size()) {
    throw Error(ErrorKind::bad_input, "expected one precedence per setting, found another count");
  }
  std::vector<DecidedSetting> out;
  for (int i = 0; i < kept.settings_size(); ++i) {
    out.push_back({decode_precedence(kept.precedences(i)), decode(kept.settings(i))});
  }
  return out;
}

bool World::Kept::write(const World& world, KeptWorld& kept) {
  if (!world.announced_.empty() || !world.over_.empty()) return false;
  if (world.jobs_.size() != world.jobs_.submitted()) return false;  // A job has been removed.
  for (const JobInfo& job : world.jobs_) encode_job(job, *kept.add_jobs());
  for (const JobId owner : world.state_.owner) kept.add_owner(owner.value);
  for (const std::uint32_t free : world.state_.free_per_node) kept.add_free_per_node(free);
  kept.set_free(world.state_.free);
  for (const auto& [part, state] : world.state_.parts) {
    encode(Event{PartChanged{part, state}}, *kept.add_parts());
    kept.add_parts_since(state.since);
  }
  kept.set_version(world.state_.version);
  kept.set_lost_hosts(world.lost_hosts_);
  for (const auto& [where, settings] : world.ahead_) {
    live::KeptSettings& ahead = *kept.add_ahead();
    ahead.set_job(where.first.value);
    ahead.set_from_step(where.second);
    for (const DecidedSetting& setting : settings) encode_decided(setting, ahead);
  }
  for (const auto& [job, coming] : world.coming_) {
    for (const auto& [step, setting] : coming.settings) {
      live::KeptSettings& out = *kept.add_coming();
      out.set_job(job.value);
      out.set_from_step(step);
      encode_decided(setting, out);
    }
  }
  for (const auto& [which, precedence] : world.present_) {
    live::KeptPresent& present = *kept.add_present();
    present.set_job(which.first.value);
    present.set_kind(static_cast<std::uint32_t>(which.second));
    encode_precedence(precedence, *present.mutable_precedence());
  }
  return true;
}

void World::Kept::read(const KeptWorld& kept, World& world) {
  ClusterState& state = world.state_;
  const bool fits =
      world.jobs_.empty() && static_cast<std::size_t>(kept.owner_size()) == state.owner.size() &&
      static_cast<std::size_t>(kept.free_per_node_size()) == state.free_per_node.size();
  if (!fits)
    throw Error(ErrorKind::bad_input, "expected the state of this cluster, found another cluster");
  for (const KeptJob& job : kept.jobs()) decode_job(job, world.jobs_.add(decode(job.spec())));
  world.has_copies_ = std::any_of(kept.jobs().begin(), kept.jobs().end(),
                                  [](const KeptJob& job) { return job.checkpoints_size() > 0; });
  for (std::size_t gpu = 0; gpu < state.owner.size(); ++gpu) {
    state.owner[gpu] = {kept.owner(static_cast<int>(gpu))};
  }
  state.free_per_node.assign(kept.free_per_node().begin(), kept.free_per_node().end());
  state.free = kept.free();
  if (kept.parts_size() != kept.parts_since_size()) {
    throw Error(ErrorKind::bad_input, "expected one instant per part, found another count");
  }
  for (int i = 0; i < kept.parts_size(); ++i) {
    const Event event = decode(kept.parts(i));
    const auto* changed = std::get_if<PartChanged>(&event);
    if (changed == nullptr)
      throw Error(ErrorKind::bad_input, "expected a change of a part, found another event");
    state.parts[changed->part] = changed->to;
    state.parts[changed->part].since = kept.parts_since(i);
  }
  state.version = kept.version();
  world.lost_hosts_ = kept.lost_hosts();
  for (std::uint32_t node = 0; node < world.cluster().nodes(); ++node) {
    world.owners().recount_free({node});
  }
  for (const live::KeptSettings& ahead : kept.ahead()) {
    auto& settings = world.ahead_[{JobId{ahead.job()}, ahead.from_step()}];
    for (DecidedSetting& setting : decode_decided(ahead)) settings.push_back(std::move(setting));
  }
  for (const live::KeptSettings& coming : kept.coming()) {
    for (DecidedSetting& setting : decode_decided(coming)) {
      world.coming_[{coming.job()}].settings.emplace_back(coming.from_step(), std::move(setting));
    }
  }
  for (const live::KeptPresent& present : kept.present()) {
    world.present_[{JobId{present.job()}, present.kind()}] =
        decode_precedence(present.precedence());
  }
}

namespace live {

bool keep(const World& world, KeptWorld& kept) { return World::Kept::write(world, kept); }

World read_world(const KeptWorld& kept, const Cluster& cluster) {
  World world(cluster);
  try {
    World::Kept::read(kept, world);
  } catch (const Error& error) {
    throw Error(ErrorKind::environment, "the journal's snapshot: " + error.message());
  }
  return world;
}

}  // namespace live
}  // namespace orrery
