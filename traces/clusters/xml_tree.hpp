// XML text as a tree of elements with their attributes and places, for the readers of cluster
// files. Text between elements, comments, declarations and processing instructions are left out.
// Refuses entities of its own, more than 64 MiB, 200 levels or a million elements. Thread-safe: no
// state between calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/schema/config_keys.hpp"

namespace orrery {

/// Attribute of an element with its place.
struct XmlAttribute {
  std::string name, value;
  int line = 1, column = 1;
};

/// Element with its place. Lines and columns count from 1.
struct XmlElement {
  std::string name;
  int line = 1, column = 1;
  std::vector<XmlAttribute> attributes;
  std::vector<XmlElement> children;

  /// Returns the value of an attribute; empty if the element lacks the attribute.
  std::string_view value(std::string_view attribute) const;
  /// Returns the attribute; nullptr if the element lacks the attribute.
  const XmlAttribute* find(std::string_view attribute) const;
};

/// Returns the root element. Throws bad_input with the place for text that is not XML.
XmlElement parse_xml_tree(const ConfigText& source);

}  // namespace orrery
