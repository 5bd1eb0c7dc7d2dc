package apitype

import (
	"fmt"
	"strings"
)

// BoundQuantity refuses the text of a quantity that takes too long to parse or to compare. To compare 1e999999999 with anything,
// apimachinery computes all of its digits, which takes hours; some such texts take as long to parse. To parse many digits takes
// time and memory by their square.
func BoundQuantity(text string) error {
	const maxDigits, maxExponent = 10_000, 3
	if len(text) > maxDigits {
		return fmt.Errorf("a number of more than %d digits is too long for a quantity", maxDigits)
	}
	if at := strings.LastIndexAny(text, "eE"); at >= 0 && len(strings.TrimLeft(text[at+1:], "+-")) > maxExponent {
		return fmt.Errorf("the exponent of %.40s is too large for a quantity", text)
	}
	return nil
}
