#include "sim/estimates/step/trace_communications.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace orrery::estimates {

TraceCommunications::TraceCommunications(Engine& engine, const ChakraTrace& trace,
                                         const FoldedTrace& folded, const TracePlan& plan,
                                         Owner& owner)
    : engine_(engine), plan_(plan), owner_(owner), classes_(folded.classes.size()) {
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    classes_[i].program = &trace.programs[folded.classes[i].program];
    classes_[i].number.assign(classes_[i].program->ops.size(), ~std::uint32_t{0});
  }
  for (std::size_t i = 0; i < folded.collectives.size(); ++i) {
    const std::vector<ClassOp>& ops = folded.collectives[i].ops;
    add({.phases = &plan.collectives[i].phases, .starts = ops, .ends = ops});
  }
  for (std::size_t i = 0; i < folded.sends.size(); ++i) {
    const FoldedSend& send = folded.sends[i];
    add({.phases = &plan.sends[i].phases, .starts = {send.from}, .ends = {send.from, send.to}});
  }
}

void TraceCommunications::add(Communication communication) {
  const auto number = static_cast<std::uint32_t>(all_.size());
  communication.missing = static_cast<std::uint32_t>(communication.starts.size());
  for (const ClassOp& at : communication.starts) classes_[at.of_class].number[at.op] = number;
  for (const ClassOp& at : communication.ends) classes_[at.of_class].number[at.op] = number;
  all_.push_back(std::move(communication));
}

void TraceCommunications::record_reached(ClassOp reached) {
  const std::uint32_t number = number_of(reached);
  Communication& it = all_[number];
  if (--it.missing > 0) return;
  for (const ClassOp& at : it.starts) {
    classes_[at.of_class].startable.insert(priority_of(at, number));
    owner_.mark_class(at.of_class);
  }
}

TraceCommunications::Turn TraceCommunications::priority_of(ClassOp at, std::uint32_t number) const {
  return {op(at).kind == TraceOpKind::collective, op(at).id, number};
}

bool TraceCommunications::can_start(const Communication& communication) const {
  return std::none_of(communication.starts.begin(), communication.starts.end(),
                      [&](const ClassOp& at) { return classes_[at.of_class].busy; });
}

/// Only the communication whose turn it is may start: a later one that overtakes, because a member
/// becomes free in this same instant, would make the order depend on the processing order of
/// events.
void TraceCommunications::start_next(std::uint32_t of_class) {
  const ClassState& state = classes_[of_class];
  if (state.busy || state.startable.empty()) return;
  const std::uint32_t next = std::get<2>(*state.startable.begin());
  if (can_start(all_[next])) start(next);
}

void TraceCommunications::start(std::uint32_t number) {
  for (const ClassOp& at : all_[number].starts) {
    ClassState& state = classes_[at.of_class];
    owner_.account_class(at.of_class);
    state.busy = true;
    state.startable.erase(priority_of(at, number));
  }
  phase(number, 0);
}

void TraceCommunications::phase(std::uint32_t number, std::size_t at) {
  const std::vector<TracePhase>& phases = *all_[number].phases;
  if (at == phases.size()) return end(number);
  const auto flow = [this, number, at] {
    const TracePhase& what = (*all_[number].phases)[at];
    const std::vector<std::uint32_t>& links = plan_.links.of_flow[what.flow];
    engine_.flow(links, what.bytes, [this, number, at](bool ok) {
      ensure(ok, "no link of a trace goes down");
      phase(number, at + 1);
      owner_.process_ends();
    });
  };
  if (phases[at].latency > 0) {
    engine_.after(phases[at].latency, flow);
  } else {
    flow();
  }
}

void TraceCommunications::end(std::uint32_t number) {
  Communication& it = all_[number];
  it.over = true;
  for (const ClassOp& at : it.starts) {
    owner_.account_class(at.of_class);
    classes_[at.of_class].busy = false;
    owner_.mark_class(at.of_class);
    // Other communications may have waited for this class alone.
    for (const auto& [collective, id, other] : classes_[at.of_class].startable) {
      for (const ClassOp& member : all_[other].starts) owner_.mark_class(member.of_class);
    }
  }
  for (const ClassOp& at : it.ends) {
    const bool receive = op(at).kind == TraceOpKind::receive;
    if (!receive || owner_.is_reached(at)) owner_.on_op_end(at);
  }
}

std::optional<std::pair<ClassOp, ClassOp>> TraceCommunications::stuck_pair() const {
  for (const Communication& it : all_) {
    if (it.over) continue;
    const ClassOp *here = nullptr, *absent = nullptr;
    for (const ClassOp& at : it.starts) (owner_.is_reached(at) ? here : absent) = &at;
    for (const ClassOp& at : it.ends) {
      if (owner_.is_reached(at)) here = &at;
    }
    if (here != nullptr && absent != nullptr) return std::pair(*here, *absent);
  }
  return {};
}

}  // namespace orrery::estimates
