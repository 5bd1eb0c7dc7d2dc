package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// enumHeader begins what the description of a field says about its values.
const enumHeader = "Possible enum values:"

// withoutEnums takes the values that fields may have out of schemas and out of their descriptions, as kube-apiserver does
// without OpenAPIEnums.
func withoutEnums(schemas map[string]json.RawMessage) error {
	for name, schema := range schemas {
		pruned, err := pruneEnums(schema)
		if err != nil {
			return fmt.Errorf("schema %s: %w", name, err)
		}
		schemas[name] = pruned
	}
	return nil
}

// pruneEnums is withoutEnums for one schema. It reads the schema by its keywords, because a property may be named like one.
func pruneEnums(schema json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(schema, []byte(`"enum"`)) && !bytes.Contains(schema, []byte(enumHeader)) {
		return schema, nil
	}
	var words map[string]json.RawMessage
	if err := json.Unmarshal(schema, &words); err != nil {
		return nil, err
	}
	delete(words, "enum")
	for word, value := range words {
		var err error
		switch word {
		case "description":
			words[word], err = pruneDescription(value)
		case "properties":
			var properties map[string]json.RawMessage
			if err = json.Unmarshal(value, &properties); err == nil {
				if err = withoutEnums(properties); err == nil {
					words[word], err = json.Marshal(properties)
				}
			}
		case "items", "additionalProperties", "not":
			if value[0] == '{' { // additionalProperties may be a boolean
				words[word], err = pruneEnums(value)
			}
		case "allOf", "anyOf", "oneOf":
			words[word], err = pruneList(value)
		}
		if err != nil {
			return nil, err
		}
	}
	return json.Marshal(words)
}

func pruneList(list json.RawMessage) (json.RawMessage, error) {
	var schemas []json.RawMessage
	if err := json.Unmarshal(list, &schemas); err != nil {
		return nil, err
	}
	for i := range schemas {
		var err error
		if schemas[i], err = pruneEnums(schemas[i]); err != nil {
			return nil, err
		}
	}
	return json.Marshal(schemas)
}

func pruneDescription(value json.RawMessage) (json.RawMessage, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return nil, err
	}
	before, _, found := strings.Cut(text, enumHeader)
	if !found {
		return value, nil
	}
	return json.Marshal(strings.TrimSpace(before))
}
