package org.handspan.device

import android.graphics.Bitmap
import android.graphics.BitmapFactory
import android.graphics.Matrix
import android.media.ExifInterface
import java.io.ByteArrayOutputStream
import java.io.IOException

/** The photo with its pixels upright. Many cameras only note in the file how it must be turned, and models do not read that. */
internal fun upright(jpeg: ByteArray): ByteArray {
    val degrees = degreesOf(jpeg)
    if (degrees == 0) return jpeg
    val photo = BitmapFactory.decodeByteArray(jpeg, 0, jpeg.size) ?: return jpeg
    val turned = Bitmap.createBitmap(photo, 0, 0, photo.width, photo.height, Matrix().apply { postRotate(degrees.toFloat()) }, true)
    return ByteArrayOutputStream().also { turned.compress(Bitmap.CompressFormat.JPEG, JPEG, it) }.toByteArray()
}

private fun degreesOf(jpeg: ByteArray): Int = try {
    when (ExifInterface(jpeg.inputStream()).getAttributeInt(ExifInterface.TAG_ORIENTATION, ExifInterface.ORIENTATION_NORMAL)) {
        ExifInterface.ORIENTATION_ROTATE_90 -> 90
        ExifInterface.ORIENTATION_ROTATE_180 -> 180
        ExifInterface.ORIENTATION_ROTATE_270 -> 270
        else -> 0
    }
} catch (unreadable: IOException) {
    0
}

private const val JPEG = 90
