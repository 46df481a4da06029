// What a machine's section holds beside entries, as JSON objects: problems seen, nodes, forms,
// denials, time spent. Private to this room.
#pragma once

#include <string>

#include "cache/json_tree.h"
#include "cache/knowledge.h"

namespace tunableop {

// Reads an element. False: `problem` holds what ReadRecord would say.
bool ReadElement(const JsonTree& tree, const JsonTree::Node& node, SeenRecord& seen,
                 std::string& problem);
bool ReadElement(const JsonTree& tree, const JsonTree::Node& node, NodeRecord& record,
                 std::string& problem);
bool ReadElement(const JsonTree& tree, const JsonTree::Node& node, FormRecord& form,
                 std::string& problem);
bool ReadElement(const JsonTree& tree, const JsonTree::Node& node, DeniedRecord& denied,
                 std::string& problem);
bool ReadElement(const JsonTree& tree, const JsonTree::Node& node, SpentRecord& spent,
                 std::string& problem);

// Whether the element can be written so that it is read again: a node has a name, of at most 4096
// bytes; a form has a group, a shape and a name, and a denial names a kernel.
bool Writable(const NodeRecord& record);
bool Writable(const FormRecord& form);
bool Writable(const DeniedRecord& denied);

// Appends the element on one line. A reason is cut after 1000 bytes.
void AppendElement(const SeenRecord& seen, std::string& out);
void AppendElement(const NodeRecord& record, std::string& out);
void AppendElement(const FormRecord& form, std::string& out);
void AppendElement(const DeniedRecord& denied, std::string& out);
void AppendElement(const SpentRecord& spent, std::string& out);

}  // namespace tunableop
