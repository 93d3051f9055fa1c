package families

import (
	"fmt"

	"normbench/kernels"
)

// servesAll is Serves of a design without limits of its own.
func servesAll(kernels.Problem) error { return nil }

// servesNoFP8 is Serves of a forward design that has no fp8 output.
func servesNoFP8(p kernels.Problem) error {
	if p.FP8 {
		return fmt.Errorf("the design has no fp8 output")
	}
	return nil
}

func set(k *kernels.Knob, v int) kernels.Setting { return kernels.Setting{Knob: k, Value: v} }

// hasClusters says whether the device has clusters and bulk copies: sm_90.
func hasClusters(d kernels.DeviceInfo) bool { return d.ArchNumber() >= 90 }
