package org.handspan.device

import android.annotation.SuppressLint
import android.content.Context
import android.graphics.ImageFormat
import android.hardware.camera2.CameraAccessException
import android.hardware.camera2.CameraCaptureSession
import android.hardware.camera2.CameraCharacteristics
import android.hardware.camera2.CameraDevice
import android.hardware.camera2.CameraManager
import android.hardware.camera2.CaptureFailure
import android.hardware.camera2.CaptureRequest
import android.hardware.camera2.CaptureResult
import android.hardware.camera2.TotalCaptureResult
import android.media.ImageReader
import android.os.Handler
import android.os.HandlerThread
import android.os.SystemClock
import android.util.Size
import org.handspan.client.MediaFile
import org.handspan.client.ToolError
import java.util.concurrent.ArrayBlockingQueue
import java.util.concurrent.TimeUnit

/**
 * Takes one photo without a preview, with the camera at the back: upright, and once the exposure has settled.
 * Android gives the camera only to an app with a screen, or with a foreground service of that type that began with one.
 */
internal class Camera(private val context: Context, private val degrees: () -> Int?) {
    private val results = ArrayBlockingQueue<Any>(1)

    fun takePhoto(quality: String): MediaFile {
        val thread = HandlerThread("handspan-camera").apply { start() }
        try {
            val jpeg = takePhoto(Quality.of(quality), Handler(thread.looper))
            return MediaFile(upright(jpeg), "image/jpeg", "photo.jpg")
        } catch (refused: CameraAccessException) {
            throw ToolError("execution_failed", "No photo: ${reasonOf(refused)}")
        } catch (refused: SecurityException) {
            throw ToolError("permission_denied", "No photo: Android refuses the camera: ${refused.message}")
        } finally {
            thread.quitSafely()
        }
    }

    @SuppressLint("MissingPermission") // DeviceTools asks for it before
    private fun takePhoto(quality: Quality, handler: Handler): ByteArray {
        val manager = context.getSystemService(Context.CAMERA_SERVICE) as CameraManager
        val id = backCamera(manager)
        val about = manager.getCameraCharacteristics(id)
        val size = choose(sizes(about, ImageFormat.JPEG), quality.width)
        val small = choose(sizes(about, ImageFormat.YUV_420_888), PREVIEW_WIDTH)
        val photos = ImageReader.newInstance(size.width, size.height, ImageFormat.JPEG, 2)
        val preview = ImageReader.newInstance(small.width, small.height, ImageFormat.YUV_420_888, 2)
        try {
            manager.openCamera(id, opened(), handler)
            (await("open") as CameraDevice).use { camera ->
                watch(photos, preview, handler)
                val still = still(camera, about, quality)
                begin(camera, photos, preview, still, handler)
                return await("answer") as ByteArray
            }
        } finally {
            photos.close()
            preview.close()
        }
    }

    private fun opened() = object : CameraDevice.StateCallback() {
        override fun onOpened(device: CameraDevice) {
            // A camera that opens when the call has timed out is closed again.
            if (!results.offer(device)) device.close()
        }

        override fun onDisconnected(device: CameraDevice) = end(device, "another app uses the camera")

        override fun onError(device: CameraDevice, error: Int) = end(device, wordsOf(error))

        /** Android wants a camera closed that could not be used. */
        private fun end(device: CameraDevice, why: String) {
            device.close()
            fail(why)
        }
    }

    private fun watch(photos: ImageReader, preview: ImageReader, handler: Handler) {
        photos.setOnImageAvailableListener({ source ->
            source.acquireLatestImage()?.use { image ->
                val buffer = image.planes[0].buffer
                results.offer(ByteArray(buffer.remaining()).also { buffer.get(it) })
            }
        }, handler)
        preview.setOnImageAvailableListener({ source -> source.acquireLatestImage()?.close() }, handler) // else it fills up
    }

    private fun still(camera: CameraDevice, about: CameraCharacteristics, quality: Quality): CaptureRequest.Builder {
        val request = camera.createCaptureRequest(CameraDevice.TEMPLATE_STILL_CAPTURE)
        request.set(CaptureRequest.JPEG_QUALITY, quality.jpeg.toByte())
        val sensor = about.get(CameraCharacteristics.SENSOR_ORIENTATION) ?: 0
        val isFront = about.get(CameraCharacteristics.LENS_FACING) == CameraCharacteristics.LENS_FACING_FRONT
        request.set(CaptureRequest.JPEG_ORIENTATION, jpegOrientation(sensor, degrees(), isFront))
        return request
    }

    @Suppress("DEPRECATION") // the form that every Android since 5 has
    private fun begin(camera: CameraDevice, photos: ImageReader, preview: ImageReader, still: CaptureRequest.Builder, handler: Handler) {
        still.addTarget(photos.surface)
        val running = camera.createCaptureRequest(CameraDevice.TEMPLATE_PREVIEW)
        running.addTarget(preview.surface)
        camera.createCaptureSession(listOf(preview.surface, photos.surface), object : CameraCaptureSession.StateCallback() {
            override fun onConfigured(session: CameraCaptureSession) = orFail {
                session.setRepeatingRequest(running.build(), RunUp(session, still.build(), handler), handler)
            }

            override fun onConfigureFailed(session: CameraCaptureSession) = fail("the camera can't be set up")
        }, handler)
    }

    /** The first pictures of a camera are dark: those of a preview run until the exposure has settled, and then the photo is taken. */
    private inner class RunUp(
        private val session: CameraCaptureSession,
        private val still: CaptureRequest,
        private val handler: Handler,
    ) : CameraCaptureSession.CaptureCallback() {
        private val end = SystemClock.elapsedRealtime() + RUN_UP_MS
        private var pictures = 0
        private var isTaken = false

        override fun onCaptureCompleted(session: CameraCaptureSession, request: CaptureRequest, result: TotalCaptureResult) {
            pictures++
            val isSettled = isSettled(result.get(CaptureResult.CONTROL_AE_STATE), pictures)
            if (isTaken || !(isSettled || SystemClock.elapsedRealtime() > end)) return
            isTaken = true
            orFail { this.session.capture(still, Shot(), handler) }
        }
    }

    private inner class Shot : CameraCaptureSession.CaptureCallback() {
        override fun onCaptureFailed(session: CameraCaptureSession, request: CaptureRequest, failure: CaptureFailure) =
            fail("the camera dropped the picture (${failure.reason})")
    }

    /** On the camera's thread a throw would end the app. */
    private fun orFail(work: () -> Unit) {
        try {
            work()
        } catch (refused: CameraAccessException) {
            fail(reasonOf(refused))
        } catch (closed: IllegalStateException) {
            fail("the camera was closed: ${closed.message}")
        }
    }

    private fun await(what: String): Any {
        val result = results.poll(SECONDS, TimeUnit.SECONDS) ?: throw ToolError("timeout", "The camera did not $what within $SECONDS s")
        if (result is ToolError) throw result
        return result
    }

    private fun fail(why: String) {
        results.clear()
        results.offer(ToolError("execution_failed", "No photo: $why"))
    }

    private fun backCamera(manager: CameraManager): String {
        val ids = manager.cameraIdList
        val back = ids.find { manager.getCameraCharacteristics(it).get(CameraCharacteristics.LENS_FACING) == CameraCharacteristics.LENS_FACING_BACK }
        return back ?: ids.firstOrNull() ?: throw ToolError("execution_failed", "This phone has no camera")
    }

    private fun sizes(about: CameraCharacteristics, format: Int): List<Size> =
        about.get(CameraCharacteristics.SCALER_STREAM_CONFIGURATION_MAP)?.getOutputSizes(format)?.toList() ?: emptyList()

    private companion object {
        const val SECONDS = 20L
        const val PREVIEW_WIDTH = 640
        const val RUN_UP_MS = 2500L
    }
}

/** How large a photo becomes, and how well it is kept. */
internal enum class Quality(val width: Int, val jpeg: Int) {
    LOW(640, 60), MEDIUM(1280, 80), HIGH(2560, 92);

    companion object {
        /** Without a word: medium. */
        fun of(word: String): Quality = values().find { it.name.equals(word, ignoreCase = true) } ?: MEDIUM
    }
}

/** The size whose width is nearest to the wanted one. */
internal fun choose(sizes: List<Size>, width: Int): Size =
    sizes.minByOrNull { kotlin.math.abs(it.width - width) } ?: Size(width, width * 3 / 4)

/** Whether the exposure has settled in this preview picture. Some cameras do not say: then after a few pictures. */
internal fun isSettled(exposure: Int?, pictures: Int): Boolean = when (exposure) {
    CaptureResult.CONTROL_AE_STATE_CONVERGED, CaptureResult.CONTROL_AE_STATE_FLASH_REQUIRED, CaptureResult.CONTROL_AE_STATE_LOCKED -> true
    null -> pictures >= PICTURES_OF_UNKNOWN_EXPOSURE
    else -> false
}

private const val PICTURES_OF_UNKNOWN_EXPOSURE = 10

/** How far a photo must be turned to stand upright; [degrees]: how the phone is held, null when it lies (CaptureRequest.JPEG_ORIENTATION). */
internal fun jpegOrientation(sensor: Int, degrees: Int?, isFront: Boolean): Int {
    val held = ((degrees ?: 0) + 45) / 90 * 90
    return (sensor + (if (isFront) -held else held) + 720) % 360
}

private fun reasonOf(refused: CameraAccessException): String = when (refused.reason) {
    CameraAccessException.CAMERA_DISABLED -> wordsOf(CameraDevice.StateCallback.ERROR_CAMERA_DISABLED)
    CameraAccessException.CAMERA_IN_USE, CameraAccessException.MAX_CAMERAS_IN_USE -> "another app uses the camera"
    else -> refused.message ?: "the camera failed"
}

private fun wordsOf(error: Int): String = when (error) {
    CameraDevice.StateCallback.ERROR_CAMERA_IN_USE, CameraDevice.StateCallback.ERROR_MAX_CAMERAS_IN_USE -> "another app uses the camera"
    CameraDevice.StateCallback.ERROR_CAMERA_DISABLED ->
        "Android gives no camera to an app in the background: open the app on the phone once, and try again"
    else -> "the camera failed with error $error"
}
