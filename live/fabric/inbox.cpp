#include "live/fabric/inbox.hpp"

#include <utility>

#include "live/fabric/fabric.hpp"

namespace orrery::live {

void Inbox::put_piece(PieceData piece, bool direct) {
  const std::scoped_lock lock(mutex_);
  (direct ? direct_ : collective_).push_back(std::move(piece));
  collective_waiting_ = collective_.size();
  changed_.notify_all();
}

void Inbox::close(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  closed_ = why;
  changed_.notify_all();
}

std::optional<PieceData> Inbox::take_collective() {
  const std::scoped_lock lock(mutex_);
  if (collective_.empty()) return {};
  PieceData piece = std::move(collective_.front());
  collective_.pop_front();
  collective_waiting_ = collective_.size();
  return piece;
}

PieceData Inbox::wait_for_direct() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_.has_value() || !direct_.empty(); });
  if (closed_.has_value()) throw FabricBroken(*closed_);
  PieceData piece = std::move(direct_.front());
  direct_.pop_front();
  return piece;
}

}  // namespace orrery::live
