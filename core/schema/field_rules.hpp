// Rules of a single field (options.proto): its accepted texts and their values. Shared by the
// loader, set_field, fill_defaults and the JSON Schema generator. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "core/schema/options.pb.h"
#include "core/units.hpp"

namespace orrery {

/// Returns the rule of a field; an empty rule if the field has no option.
const FieldRule& rule_of(const google::protobuf::FieldDescriptor& field);
/// Returns the dimension of a rule's unit.
Dimension dimension_of(const FieldRule& rules);

/// Returns the allowed values of a string field (FieldRule.one_of or FieldRule.names_of); empty:
/// any text. Throws an internal Error if the program does not contain the enum.
std::vector<std::string> allowed_words(const google::protobuf::FieldDescriptor& field);

/// Returns true if one of the keys of a oneof is required.
bool is_required(const google::protobuf::OneofDescriptor& choice_of);
/// Returns the keys of a oneof for a message, for example "at_step and at_time" or "slow, kill and
/// stop".
std::string choices_of(const google::protobuf::OneofDescriptor& choice_of);

/// Returns true for a whole number without a unit that may be 10^12 or more, as numbers of steps
/// and tokens: its text may end in k, M, B or T, for example "2T".
bool takes_suffix(const google::protobuf::FieldDescriptor& field);

/// Converts `text` by the rule of `field` and sets the field (appends, if the field is repeated).
/// `plain`: the text has no quotes. Returns "", or the problem for a message to the user; then the
/// message is unchanged. Throws an internal Error for a field whose type no schema of Orrery has.
std::string put_scalar(google::protobuf::Message& message,
                       const google::protobuf::FieldDescriptor& field, std::string_view text,
                       bool plain);

/// Smallest and largest value of a number, in the unit of storage.
struct Range {
  double low, high;
};
/// Returns the range of a number. The default minimum is 0; the default maximum is the largest
/// value of the field's type (of 64-bit integers: 9.2e18).
Range range_of(const google::protobuf::FieldDescriptor& field);

/// Returns true if the field's type is google.protobuf.Any.
bool is_any(const google::protobuf::FieldDescriptor& field);

/// Returns the type of the parameters beside the string field `name` of `holder`; null if none
/// exists. For example, the parameters of "fifo-skip" have type orrery.FifoSkipParameters.
const google::protobuf::Descriptor* parameters_type(const google::protobuf::Message& holder);

/// Returns an empty message of a generated type, which the caller owns; null if the type is not
/// linked in.
google::protobuf::Message* new_message(const google::protobuf::Descriptor& type);

/// Returns true if the field is present. A field without presence is present if its value is not
/// zero, a repeated field if it has entries.
bool is_present(const google::protobuf::Message& message,
                const google::protobuf::FieldDescriptor& field);

}  // namespace orrery
