// One field of a message by its rule (options.proto): what text it takes and what it means. Shared
// by the loader, set_field, fill_defaults and the JSON Schema generator. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "core/schema/options.pb.h"
#include "core/units.hpp"

namespace orrery {

const FieldRule& rule_of(const google::protobuf::FieldDescriptor& field);
Dimension dimension_of(const FieldRule& rules);

/// Whether one of the keys of a oneof must be written.
bool is_required(const google::protobuf::OneofDescriptor& choice_of);
/// "at_step and at_time", "slow, kill and stop".
std::string choices_of(const google::protobuf::OneofDescriptor& choice_of);

/// Converts `text` and sets the field (appends, if it is repeated). `plain`: not in quotes.
/// Returns what is wrong, or "".
std::string put_scalar(google::protobuf::Message& message,
                       const google::protobuf::FieldDescriptor& field, std::string_view text,
                       bool plain);

/// Lowest and highest allowed value of a number, in the unit it is stored in.
struct Range {
  double low, high;
};
Range range_of(const google::protobuf::FieldDescriptor& field);

bool is_any(const google::protobuf::FieldDescriptor& field);

/// Type of the parameters beside the string field `name` of `holder`: "fifo-skip" has
/// orrery.FifoSkipParameters. Null if there is none.
const google::protobuf::Descriptor* parameters_type(const google::protobuf::Message& holder);

/// An empty message of a generated type; null if it is not linked in.
google::protobuf::Message* new_message(const google::protobuf::Descriptor& type);

/// Whether something stands in the field: presence where the field has it, else not zero.
bool is_present(const google::protobuf::Message& message,
                const google::protobuf::FieldDescriptor& field);

}  // namespace orrery
