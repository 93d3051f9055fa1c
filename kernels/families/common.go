package families

import (
	"fmt"

	"normbench/kernels"
)

// servesAll is the Serves of a design that can do every problem.
func servesAll(kernels.Problem) error { return nil }

// servesNoFP8 is the Serves of a design without fp8 output.
func servesNoFP8(p kernels.Problem) error {
	if p.FP8 {
		return fmt.Errorf("the design has no fp8 output")
	}
	return nil
}

// set makes a setting.
func set(k *kernels.Knob, v int) kernels.Setting { return kernels.Setting{Knob: k, Value: v} }

// hasClusters says whether the device has clusters and bulk copies: sm_90.
func hasClusters(d kernels.DeviceInfo) bool { return d.ArchNumber() >= 90 }
