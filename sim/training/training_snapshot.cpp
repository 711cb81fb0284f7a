#include "sim/training/training_snapshot.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "sim/training/next_step.hpp"
#include "sim/training/placement.hpp"
#include "sim/training/state_archive.hpp"
#include "sim/training/step_sequence.hpp"

namespace orrery::sim {
namespace {

/// First value of a snapshot; another one is another layout of the bytes.
constexpr std::uint32_t kVersion = 5;

/// Fits of a state by their placements, and the begin of the open step.
struct Placements {
  Standing first, now;
  std::vector<std::uint32_t> ranks;
  std::vector<GpuId> numbered;
  std::optional<Nanos> opened;
};

template <class Archive>
void fields(Archive& archive, Placements& of) {
  archive(of.first, of.now, of.ranks, of.numbered, of.opened);
}

}  // namespace

std::string write_state(const TrainingState& state) {
  ensure(!state.stretch, "a snapshot is taken between steps or within an open step");
  std::string bytes;
  StateWriter archive(bytes);
  archive(kVersion);
  archive(Placements{.first = state.fits.first->where(),
                     .now = state.fit().where(),
                     .ranks = state.fit().ranks(),
                     .numbered = state.fits.numbered,
                     .opened = state.open ? std::optional(state.open->start()) : std::nullopt},
          state);
  return bytes;
}

TrainingState read_state(const JobInWorld& here, std::string_view bytes) {
  StateReader archive(bytes);
  std::uint32_t version = 0;
  archive(version);
  ensure(version == kVersion, "a snapshot is read by the version that wrote it");
  Placements at;
  archive(at);
  TrainingState state = state_at(here, at.first);
  state.fits.numbered = std::move(at.numbered);
  state.faults.plan.move_ranks(state.fits.numbered);
  if (at.now != at.first) here.fits().move_to(state.fits, at.now, std::move(at.ranks));
  archive(state);
  ensure(archive.is_at_end(), "a snapshot ends with its state");
  if (state.conditions) apply_conditions(here, state);
  if (at.opened) reopen_step(here, state, *at.opened);
  return state;
}

}  // namespace orrery::sim
