package org.handspan.test

import android.hardware.camera2.CameraCaptureSession
import android.hardware.camera2.CameraCharacteristics
import android.hardware.camera2.CameraDevice
import android.hardware.camera2.CameraManager
import android.hardware.camera2.CaptureRequest
import android.hardware.camera2.params.StreamConfigurationMap
import android.media.ImageReader
import android.os.Handler
import android.util.Size
import android.view.Surface

/** The cameras of a phone, of which the second is at the back; [error]: what opening one fails with. */
class FakeCameras(private val photo: ByteArray, private val error: Int? = null) : CameraManager() {
    var opened = ""
    var isClosed = false

    override fun getCameraIdList() = arrayOf("front", "back")

    override fun getCameraCharacteristics(id: String): CameraCharacteristics = object : CameraCharacteristics() {
        @Suppress("UNCHECKED_CAST")
        override fun <T> get(key: Key<T>): T = when (key) {
            LENS_FACING -> if (id == "back") LENS_FACING_BACK else 0
            else -> object : StreamConfigurationMap() {
                override fun getOutputSizes(format: Int) = arrayOf(Size(640, 480), Size(1280, 960))
            }
        } as T
    }

    override fun openCamera(id: String, callback: CameraDevice.StateCallback, handler: Handler) {
        opened = id
        if (error == null) callback.onOpened(FakeCamera()) else callback.onError(FakeCamera(), error)
    }

    private inner class FakeCamera : CameraDevice() {
        override fun createCaptureRequest(template: Int) = CaptureRequest.Builder()

        override fun createCaptureSession(surfaces: List<Surface>, callback: CameraCaptureSession.StateCallback, handler: Handler) =
            callback.onConfigured(object : CameraCaptureSession() {
                override fun capture(request: CaptureRequest, callback: CaptureCallback?, handler: Handler): Int {
                    ImageReader.last.deliver(photo)
                    return 0
                }
            })

        override fun close() {
            isClosed = true
        }
    }
}
