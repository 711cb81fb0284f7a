#include "live/control/membership_wire.hpp"

namespace orrery::live {
namespace {

void put(const membership::Seat& seat, Seat& out) {
  out.set_rank(seat.rank);
  out.set_life(seat.life);
}
membership::Seat get(const Seat& seat) { return {seat.rank(), seat.life()}; }

}  // namespace

MemberStatus to_wire(const membership::Status& status) {
  MemberStatus out;
  put(status.from, *out.mutable_from());
  out.set_beat(status.beat);
  out.set_epoch(status.epoch);
  out.set_applied(status.applied);
  out.set_whole(status.whole);
  out.set_linked(status.linked);
  out.set_broken(status.broken);
  out.set_reduced(status.reduced);
  out.set_acknowledged(status.acknowledged);
  return out;
}

membership::Status from_wire(const MemberStatus& status) {
  return {.from = get(status.from()),
          .beat = status.beat(),
          .epoch = status.epoch(),
          .applied = status.applied(),
          .whole = status.whole(),
          .linked = status.linked(),
          .broken = status.broken(),
          .reduced = status.reduced(),
          .acknowledged = status.acknowledged()};
}

MemberDirective to_wire(const membership::Directive& directive) {
  MemberDirective out;
  put(directive.to, *out.mutable_to());
  out.set_epoch(directive.epoch);
  out.set_number(directive.number);
  out.set_committed(directive.committed);
  out.set_committed_in(directive.committed_in);
  for (const membership::Seat& seat : directive.members) put(seat, *out.add_members());
  out.set_source(directive.source);
  out.set_share(directive.share);
  out.set_work(directive.work);
  out.set_proposed(directive.proposed);
  out.set_decided(directive.decided);
  return out;
}

membership::Directive from_wire(const MemberDirective& directive) {
  membership::Directive out{.to = get(directive.to()),
                            .epoch = directive.epoch(),
                            .number = directive.number(),
                            .committed = directive.committed(),
                            .committed_in = directive.committed_in(),
                            .members = {},
                            .source = directive.source(),
                            .share = directive.share(),
                            .work = directive.work(),
                            .proposed = directive.proposed(),
                            .decided = directive.decided()};
  for (const Seat& seat : directive.members()) out.members.push_back(get(seat));
  return out;
}

}  // namespace orrery::live
