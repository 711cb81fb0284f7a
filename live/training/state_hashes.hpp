// Checksums of the training state as messages of the control plane. Pure functions.
#pragma once

#include <cstdint>

#include <google/protobuf/repeated_ptr_field.h>

#include "live/checkpoint/checksum.hpp"
#include "live/control.pb.h"

namespace orrery::live {

/// Returns the message with the checksum of a part (key of PartChecksums).
inline StateHash to_wire(std::uint32_t part, const Checksum& checksum) {
  StateHash hash;
  hash.set_part(part);
  hash.set_sum(checksum.sum());
  hash.set_weighted(checksum.weighted());
  return hash;
}

/// Returns the checksum in a message.
inline Checksum from_wire(const StateHash& hash) { return {hash.sum(), hash.weighted()}; }

/// Returns the checksums in messages, by part; of equal parts the last one.
inline PartChecksums from_wire(const google::protobuf::RepeatedPtrField<StateHash>& hashes) {
  PartChecksums sums;
  for (const StateHash& hash : hashes) sums[hash.part()] = from_wire(hash);
  return sums;
}

}  // namespace orrery::live
